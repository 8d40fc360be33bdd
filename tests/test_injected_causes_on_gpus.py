"""As test_injected_causes.py, on two GPUs or more: links, neighbours, and what only shows on a device."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fixtures.explain.topology import gpus
from tests.command_line import Outcome, pytest_perf
from tests.injected import INJECT

GPUS = len(gpus())
pytestmark = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")

# What the GPUs of this machine are called in the environment of a run, which is without them by default.
SEEN = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(GPUS))))}
NEIGHBOUR = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("busy", flush=True)
while True:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """cell: workload and config. named: what the line of the failed test must say. run: injected together."""

    cell: tuple[str, str]
    named: str
    run: str = "inside"

    @property
    def test(self) -> str:
        file = "feeds" if "feed" in self.cell[1] else "throughput"
        workload, config = self.cell
        return f"perf/test_{file}.py::test_{file}[{workload}-{GPUS}gpu-{config}]"


INJECTIONS = {
    "shm": Injection(cell=("deep", "ddp_default"), named=r"transport was P2P/.*, is SHM/", run="shm"),
    "net": Injection(cell=("deep", "ddp_default"), named=r"transport was P2P/.*, is NET/", run="net"),
    "algorithm": Injection(
        cell=("deep", "ddp_default"), named=r"algorithm of AllReduce Ring.* -> Tree", run="algorithm"
    ),
    "neighbour": Injection(cell=("deep", "ddp_default"), named=r"GPU 0: another process", run="neighbour"),
    "late rank": Injection(
        cell=("late_gpu", "ddp_default"),
        named=r"exposed communication \+.*rank 1 is late: the others wait for it \+[12]\d",
    ),
    "oversized bucket": Injection(cell=("oversized", "ddp_default"), named=r"largest bucket [\d.]+ -> 738.2 MB"),
    "no bucket view": Injection(
        cell=("unviewed", "static_graph_bucket_view"), named=r"device-to-device copies a step [\d.]+ -> [\d.]+"
    ),
    "lying hook": Injection(cell=("deep", "own_bf16"), named=r"dtypes of its collectives bfloat16 -> float32"),
    "synchronisation": Injection(
        cell=("synchronising", "ddp_default"), named=r"calls a step in which the host waits for the device \S+ -> \S+"
    ),
    "many kernels": Injection(cell=("many_kernels", "ddp_default"), named=r"the host is late for the device \+"),
    "starved loader": Injection(cell=("fed", "feed_loader"), named=r"the device waits for a batch \+|in input \+"),
}


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Another process that keeps GPU 0 busy."""
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE, env={**os.environ, **SEEN}) as one:
        try:
            assert one.stdout is not None
            assert one.stdout.readline() == b"busy\n"
            yield
        finally:
            one.kill()


@dataclass
class Runs:
    """The baseline, and each kind of injected run when it is first asked for."""

    storage: Path
    done: dict[str, Outcome] = field(default_factory=dict)

    def of(self, name: str) -> Outcome:
        if name not in self.done:
            tests = {injection.test for injection in INJECTIONS.values() if name in ("before", injection.run)}
            self.done[name] = self._perf(name, *sorted(tests))
        return self.done[name]

    def _perf(self, name: str, *arguments: str) -> Outcome:
        variables = {
            "inside": {INJECT: "1"},
            "shm": P2P_OFF,
            "net": {**P2P_OFF, "NCCL_SHM_DISABLE": "1"},
            "algorithm": {"NCCL_ALGO": "allreduce:tree"},  # Tree alone leaves the other collectives without one
        }.get(name, {})
        own = sorted({cell[0] for cell in (injection.cell for injection in INJECTIONS.values())})
        quick = ("--launches=1", "--steps=6", "--warmup=4", "--false-alarms=90", "--min-slowdown=0.5")
        more = ("--benchmark-save=before",) if name == "before" else ()
        return pytest_perf(
            self.storage,
            *arguments,
            *quick,
            *more,
            "--hook=tests.injected:hook",
            *(f"--workload=tests.injected:{workload}" for workload in own),
            variables={**SEEN, **variables},
        )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("baselines"))
    before = runs.of("before")
    assert before.exit_code == 0, before.output
    return runs


@pytest.mark.parametrize("name", INJECTIONS)
def test_the_injected_cause_is_named(runs: Runs, name: str) -> None:
    injection = INJECTIONS[name]
    if injection.run == "neighbour":
        with busy_neighbour():
            outcome = runs.of(injection.run)
    else:
        outcome = runs.of(injection.run)
    identifier = injection.test.partition("[")[2].removesuffix("]")
    _, found, after = outcome.output.partition(f"[{identifier}] ___")
    assert found, f"{identifier} did not fail:\n{outcome.output}"
    verdict, cause = [line for line in after.splitlines()[1:] if line][:2]
    print(f"{name}: {cause}")
    assert verdict.startswith("slower by ")
    assert re.search(injection.named, cause), cause
