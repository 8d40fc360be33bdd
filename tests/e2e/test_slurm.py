"""The job of docs/how-to/several-machines.md under Slurm on this machine: two tasks in place of two nodes."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import ROOT

LONGEST_S = 300
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}
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
NodeName={host} CPUs={cores} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment for Slurm's commands, with its daemons running."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} of Slurm is not installed")
    if os.geteuid() != 0:
        pytest.skip("slurmd runs as root")
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    (folder / "spool").mkdir()
    text = CONFIGURATION.format(host=platform.node(), folder=folder, cores=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / "daemons.log").open("wb") as log:
        daemons = [
            subprocess.Popen([name, "-D"], env=environ, stdout=log, stderr=log) for name in ("slurmctld", "slurmd")
        ]
    try:
        _await_idle(environ, folder / "daemons.log")
        yield environ
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def _await_idle(environ: dict[str, str], log: Path) -> None:
    """Wait until the node takes jobs."""
    deadline = time.monotonic() + 60
    command = ("sinfo", "--noheader", "--format=%t")
    while subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout.strip() != "idle":
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def test_the_job_of_the_documents_measures_two_tasks_as_two_machines(slurm: dict[str, str], tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/several-machines.md").read_text()
    (job,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    job = job.replace("--nodes=2", "--nodes=1\n#SBATCH --overcommit").replace("--ntasks-per-node=1", "--ntasks=2")
    job = job.replace(
        "-m pytest perf",
        "-m pytest perf/test_throughput.py -k 'ddp_default and 2node' --no-references -p no:cacheprovider "
        f"--launches 1 --warmup 2 --steps 3 --benchmark-storage={tmp_path / 'storage'}",
    )
    job = job.replace("night.json", str(tmp_path / "night.json"))
    (tmp_path / "perf.sbatch").write_text(job)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    output = tmp_path / "output"
    subprocess.run(
        ["sbatch", "--wait", f"--output={output}", f"--chdir={ROOT}", str(tmp_path / "perf.sbatch")],
        env={**slurm, "PATH": path, "PYTHONPATH": str(ROOT)},
        timeout=LONGEST_S,
        check=False,
    )
    assert (tmp_path / "night.json").exists(), output.read_text()
    (measured,) = json.loads((tmp_path / "night.json").read_text())["benchmarks"]
    assert measured["extra_info"]["world"] == "4cpu_2node"
    assert "1 passed" in output.read_text()
