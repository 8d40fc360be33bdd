"""The job of docs/how-to/several-machines.md under Slurm on this machine, with two tasks instead of two nodes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.machines import require_namespaces

LONGEST_S = 240
# Namespaces of their own: no other run of ddp-perf is waited for, no port is taken, and nothing outlives the test.
APART = ("unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort=16817
SlurmdPort=16818
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
NodeName=localhost CPUs={cores} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
"""
# Start the daemons, wait until the node takes jobs, and run the job of the arguments.
RUN = """\
ip link set lo up
ip link add eth0 type veth peer name port0  # Slurm resolves no name without an address that is not the loopback
ip address add 10.77.0.1/24 dev eth0
ip link set eth0 up
hostname localhost
slurmctld -D > {folder}/daemons.log 2>&1 &
slurmd -D -N localhost >> {folder}/daemons.log 2>&1 &
until test "$(sinfo --noheader --format=%t)" = idle; do sleep 0.1; done
sbatch --wait "$@"
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder with ``slurm.conf`` and ``run``, which runs a job on this machine; skips where there is no Slurm."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} of Slurm: not installed")
    if os.geteuid() != 0:
        pytest.skip("slurmd runs as root")
    require_namespaces()
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root may not make namespaces here")
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    (folder / "spool").mkdir()
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, cores=os.cpu_count()))
    (folder / "run").write_text(RUN.format(folder=folder))
    return folder


def test_the_job_of_the_documents_measures_two_tasks_as_two_machines(slurm: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/several-machines.md").read_text()
    (job,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    job = job.replace("--nodes=2", "--nodes=1\n#SBATCH --overcommit").replace("--ntasks-per-node=1", "--ntasks=2")
    job = job.replace(
        "-m pytest perf",
        "-m pytest perf/test_throughput.py -k 'ddp_default and 2node' --no-references -p no:cacheprovider "
        "--workload tests.workloads_for_tests:steady --launches 1 --warmup 2 --steps 3 "
        f"--benchmark-storage={tmp_path / 'storage'}",
    )
    job = job.replace("night.json", str(tmp_path / "night.json"))
    (tmp_path / "perf.sbatch").write_text(job)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    output = tmp_path / "output"
    output.touch()
    try:
        subprocess.run(
            [*APART, "sh", str(slurm / "run"), f"--output={output}", f"--chdir={ROOT}", str(tmp_path / "perf.sbatch")],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "SLURM_CONF": str(slurm / "slurm.conf")},
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"not done after {LONGEST_S} s:\n{output.read_text()}{(slurm / 'daemons.log').read_text()}")
    assert (tmp_path / "night.json").exists(), output.read_text()
    (measured,) = json.loads((tmp_path / "night.json").read_text())["benchmarks"]
    assert measured["extra_info"]["world"] == "4cpu_2node"
    assert "1 passed" in output.read_text()
