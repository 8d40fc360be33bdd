"""What happens to a run on several machines when one of them fails: namespaces of one machine.

    python -m studies.machines SCENARIO [--folder DIR]

Each scenario runs ``pytest perf`` under torchrun on two machines (three in ``three``), disturbs it after the first
result, and prints the exit codes, the time to the end, how many results were kept, and the lines that name a machine.
It runs over gloo, or over NCCL where each machine can have a GPU of its own.
To add a scenario, add a function to SCENARIOS that disturbs the machines.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tests.machines import ROOT, Machines, machines, wait_for

_LONGEST_S = 400
_NAMES_A_MACHINE = re.compile(r".*\bmachine \d|lost|BadMachines|native \(|! .* !|Exit: |FAILED|ERROR: |\d passed")
_ALONE = ("-p", "no:fixtures.session.references")
_SHORT = ("--launches", "1", "--warmup", "2", "--steps", "8", "-p", "no:cacheprovider", *_ALONE)
_THROUGHPUT = ("perf/test_throughput.py", "-k", "node and (ddp_default or no_comm or fp16)", *_SHORT)

# A torch of another version, to whoever asks for it.
_OTHER_TORCH = """\
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class Renamed(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def renamed(module):
            load(module)
            module.__version__ = "2.0.1"

        spec.loader.exec_module = renamed
        return spec


sys.meta_path.insert(0, Renamed())
"""


def _kill(two: Machines) -> None:
    """SIGKILL every process of machine 1."""
    for pid in two.processes(1):
        os.kill(pid, signal.SIGKILL)


def _cut(two: Machines) -> None:
    """Pull the cable of machine 1."""
    two.cut(1)


def _stop(two: Machines) -> None:
    """SIGSTOP every process of machine 1, as a host that swaps or is frozen."""
    for pid in two.processes(1):
        os.kill(pid, signal.SIGSTOP)


def _slow(two: Machines) -> None:
    """Let machine 1 receive no more than 100 Mbit/s."""
    two.slow(1, "100mbit")


def _nothing(two: Machines) -> None:
    """Disturb nothing."""


# Name -> number of machines, pytest's arguments, the disturbance after the first result.
SCENARIOS: dict[str, tuple[int, tuple[str, ...], Callable[[Machines], None]]] = {
    "killed": (2, (*_THROUGHPUT, "--rank-timeout", "60"), _kill),
    "cut": (2, (*_THROUGHPUT, "--rank-timeout", "60"), _cut),
    "stopped": (2, (*_THROUGHPUT, "--rank-timeout", "60"), _stop),
    "slow": (2, _THROUGHPUT, _slow),
    "quiet": (2, _THROUGHPUT, _nothing),
    "three": (3, (*_THROUGHPUT, "--explain", "all"), _nothing),
    "gradients": (2, ("perf/test_gradients.py", "-k", "2node and bf16", *_SHORT), _nothing),
    "other_code": (2, _THROUGHPUT, _nothing),
    "other_torch": (2, _THROUGHPUT, _nothing),
    "interface": (2, _THROUGHPUT, _nothing),
}


def _root(scenario: str, index: int, folder: Path) -> Path:
    """The copy of the suite on a machine: another revision on machine 1, for ``other_code``."""
    if scenario != "other_code" or index == 0:
        return ROOT
    copy = folder / "copy"
    copy.mkdir()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(copy)], input=archive, check=True)
    changed = copy / "fixtures" / "ranks" / "window.py"
    changed.write_text(changed.read_text() + "# another revision\n")
    return copy


def _environ(scenario: str, count: int, index: int, folder: Path) -> dict[str, str]:
    """The variables of a machine: its share of the GPUs; in some scenarios machine 1 has wrong ones."""
    share = torch.cuda.device_count() // count
    gpus = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(index * share, (index + 1) * share)))} if share else {}
    if index == 0:
        return gpus
    if scenario == "interface":
        return {**gpus, "GLOO_SOCKET_IFNAME": "eth9"}
    if scenario == "other_torch":
        (folder / "sitecustomize.py").write_text(_OTHER_TORCH)
        return {**gpus, "PYTHONPATH": f"{folder}:{ROOT}"}
    return gpus


def main() -> None:
    """Run one scenario and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", choices=SCENARIOS)
    chosen = parser.parse_args().scenario
    count, arguments, disturb = SCENARIOS[chosen]
    with tempfile.TemporaryDirectory(prefix="m-") as temporary, machines(count, Path(temporary)) as made:
        folder = Path(temporary)
        record, outputs = folder / "record.json", [folder / f"output-{index}" for index in range(count)]
        more = (f"--benchmark-json={record}", f"--benchmark-storage={folder / 'storage'}")
        began = time.monotonic()
        runs = [
            made.torchrun(
                index,
                *(*arguments, *more),
                output=output,
                root=_root(chosen, index, folder),
                environ=_environ(chosen, count, index, folder),
            )
            for index, output in enumerate(outputs)
        ]
        if disturb is not _nothing:
            while not re.search(r"^\[ *1/", outputs[0].read_text(errors="replace"), re.MULTILINE):
                assert runs[0].poll() is None, outputs[0].read_text(errors="replace")
                time.sleep(0.05)
            print(f"first result after {time.monotonic() - began:.1f} s; then: {disturb.__doc__}")
            began = time.monotonic()
            disturb(made)
        wait_for(runs[0], _LONGEST_S, outputs[0])
        print(f"machine 0 ended after {time.monotonic() - began:.1f} s")
        for index, (run, output) in enumerate(zip(runs, outputs, strict=True)):
            if chosen != "stopped" or index == 0:
                wait_for(run, _LONGEST_S, output)
            print(f"machine {index}: torchrun exits with {run.poll()}")
            for line in output.read_text(errors="replace").splitlines():
                if _NAMES_A_MACHINE.search(line) or line.startswith("["):
                    print(f"    {line}")
        if record.exists():
            kept = json.loads(record.read_text())["benchmarks"]
            print(f"results kept in the record: {len(kept)}")


if __name__ == "__main__":
    main()
