"""Injected causes of a slowdown of a config with a baseline: the injection, and the line of the failed test.

To inject another cause, write its workload in injected.py and give it an entry in ON_CPU or ON_GPUS.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from fixtures.machine.topology import gpus
from tests.command_line import Outcome
from tests.e2e.injected import INJECT
from tests.forked import live_perf as pytest_perf

GPUS = len(gpus())
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
BASELINE = "before"
# By the kind of run.
VARIABLES = {
    "inside": {INJECT: "1"},
    "shm": P2P_OFF,
    "net": {**P2P_OFF, "NCCL_SHM_DISABLE": "1"},
    "algorithm": {"NCCL_ALGO": "allreduce:tree"},  # Tree alone leaves the other collectives without one
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection:
    """cell: workload and config. run: those of one kind are injected together.

    Where a reader looks for it in the line ``+80 ms a step: PART, PART, in PHASE, in PHASE; CLAUSE; CLAUSE``, the
    largest first: step: how the parts and phases begin. clause: how a clause begins, with at most ``after`` before it.
    """

    cell: tuple[str, str]
    step: str
    clause: str = ""
    after: int = 0
    run: str = "inside"

    def test_on(self, world: str) -> str:
        workload, config = self.cell
        file = "feeds" if "feed" in config else "throughput"
        return f"perf/test_{file}.py::test_{file}[{workload}-{world}-{config}]"

    def is_named_in(self, line: str) -> bool:
        said, *clauses = line.split("; ")
        _, _, step = said.partition(" ms a step: ")
        told = not self.clause or any(re.match(self.clause, clause) for clause in clauses[: self.after + 1])
        return bool(re.match(self.step, step)) and told


@dataclass(frozen=True, kw_only=True, slots=True)
class Injections:
    """world: of all of them. arguments, variables: of every run."""

    world: str
    causes: Mapping[str, Injection]
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


# The parts of a step on the CPU are averages over the ranks: late is one rank's idle and the other's communication. A
# large bucket takes the cores from the ranks, and which part grows most is chance: its phase is what holds.
ON_CPU = Injections(
    world="2cpu",
    # Other tests check the verdict: launches of the wide cells may differ by half on a busy machine.
    arguments=("--launches=1", "--steps=4", "--warmup=4", "-p", "tests.any_difference", "--min-slowdown=50"),
    causes={
        "late rank": Injection(
            cell=("late", "ddp"),
            step=r"(idle [^,]+, )?exposed communication \+",
            clause=r"rank 1 is late.*: the others wait for it \+[2-9]\d",
        ),
        "large bucket": Injection(
            cell=("wide", "ddp_default"),
            step=r"((compute|idle|exposed communication) [^,]+, )*in backward \+",
            clause=r"largest bucket .* -> 2[34]\.\d MB",
            after=4,
        ),
        # Each rank has a loader of its own: on a busy machine one is later than the other, which waits for it.
        "starved loader": Injection(
            cell=("fed", "feed_loader"), step=r"idle [^,]+, (exposed communication [^,]+, )?in input \+"
        ),
        "lying hook": Injection(
            cell=("wide", "own_bf16"),
            step=r"((compute|idle|exposed communication) [^,]+, )*in backward \+",
            clause=r"dtypes of the collectives bfloat16 -> float32",
            after=3,
        ),
        "many operators": Injection(
            cell=("many_operators", "ddp_default"),
            step=r"(idle [^,]+, )?compute [^,]+, (idle [^,]+, )?(exposed [^,]+, )?(idle [^,]+, )?in forward \+",
        ),
    },
)
ON_GPUS = Injections(
    world=f"{GPUS}gpu",
    arguments=("--launches=1", "--steps=6", "--warmup=4", "-p", "tests.any_difference", "--min-slowdown=0.5"),
    variables=SEEN,
    # Where one clause more may stand before it, that is of a rank that happened to be late.
    causes={
        "shm": Injection(
            cell=("deep", "ddp_default"),
            step=r"exposed communication \+",
            clause=r"transport was P2P/.*, is SHM/",
            after=1,
            run="shm",
        ),
        "net": Injection(
            cell=("deep", "ddp_default"),
            step=r"exposed communication \+",
            clause=r"transport was P2P/.*, is NET/",
            after=1,
            run="net",
        ),
        "algorithm": Injection(
            cell=("deep", "ddp_default"),
            step=r"exposed communication \+",
            clause=r"algorithm of AllReduce Ring.* -> Tree",
            after=3,
            run="algorithm",
        ),
        "neighbour": Injection(
            cell=("deep", "ddp_default"),
            step=r"(compute [^,]+, )?exposed communication \+",
            clause=r"GPU 0: .*another process",
            after=1,
            run="neighbour",
        ),
        "late rank": Injection(
            cell=("late_gpu", "ddp_default"),
            step=r"exposed communication \+",
            clause=r"rank 1 is late.*: the others wait for it \+[12]\d",
        ),
        "oversized bucket": Injection(
            cell=("oversized", "ddp_default"),
            step=r"exposed communication \+",
            clause=r"largest bucket [\d.]+ -> 738.2 MB",
            after=4,
        ),
        "no bucket view": Injection(
            cell=("unviewed", "static_graph_bucket_view"),
            step=r"exposed copies \+",
            clause=r"device-to-device copies per step [\d.]+ -> [\d.]+",
            after=1,
        ),
        "lying hook": Injection(
            cell=("deep", "own_bf16"),
            step=r"exposed communication \+",
            clause=r"dtypes of the collectives bfloat16 -> float32",
            after=2,
        ),
        "synchronisation": Injection(
            cell=("synchronising", "ddp_default"),
            step=r"idle \+",
            clause=r"calls per step in which the host waits for the device \S+ -> \S+",
            after=2,
        ),
        "many kernels": Injection(
            cell=("many_kernels", "ddp_default"),
            step=r"idle \+",
            clause=r"the device waits for the host \+",
            after=1,
        ),
        "starved loader": Injection(
            cell=("fed", "feed_loader"), step=r"((idle|exposed communication) [^,]+, )*in input \+"
        ),
    },
)


@dataclass
class Runs:
    """The run without any cause, whose record is the baseline, and each kind of injected run, started at its first
    use."""

    storage: Path
    injections: Injections
    done: dict[str, Outcome] = field(default_factory=dict)

    def of(self, kind: str) -> Outcome:
        if kind not in self.done:
            with busy_neighbour() if kind == "neighbour" else nullcontext():
                self.done[kind] = self._perf(kind)
        return self.done[kind]

    def lines_of(self, name: str) -> tuple[str, str] | None:
        """Verdict and cause of this injection's test; None when it did not fail."""
        injection = self.injections.causes[name]
        _, _, identifier = injection.test_on(self.injections.world).partition("[")
        _, failed, after = self.of(injection.run).output.partition(f"[{identifier} ___")
        if not failed:
            return None
        verdict, cause = [line for line in after.splitlines()[1:] if line][:2]
        return verdict, cause

    def _perf(self, kind: str) -> Outcome:
        causes = self.injections.causes.values()
        return pytest_perf(
            self.storage,
            *sorted({cause.test_on(self.injections.world) for cause in causes if kind in (BASELINE, cause.run)}),
            *self.injections.arguments,
            *("-p", "tests.quiet_machine"),
            *((f"--benchmark-save={BASELINE}",) if kind == BASELINE else ()),
            "--hook=tests.e2e.injected:hook",
            *(f"--workload=tests.e2e.injected:{workload}" for workload in sorted({cause.cell[0] for cause in causes})),
            variables={**self.injections.variables, **VARIABLES.get(kind, {})},
        )


def begun(storage: Path, injections: Injections) -> Runs:
    """With the run of the baseline done."""
    runs = Runs(storage, injections)
    runs.of(BASELINE).exits(0)
    for file in storage.glob("*/*.json"):
        _without_fingerprints(file)
    return runs


def _without_fingerprints(file: Path) -> None:
    """As an older version wrote it: some injected models have other parameters, and are not to be refused for it."""
    record = json.loads(file.read_text())
    for benchmark in record["benchmarks"]:
        del benchmark["extra_info"]["workload_fingerprint"]
    file.write_text(json.dumps(record))


def assert_named(runs: Runs, name: str) -> None:
    """The test with this injection is slower, and its line names the cause at its position; the line is printed."""
    injection = runs.injections.causes[name]
    lines = runs.lines_of(name)
    assert lines is not None, f"{name} is not slower:\n{runs.of(injection.run).output}"
    verdict, cause = lines
    print(f"{name}: {cause}")
    assert verdict.startswith("slower by ")
    assert injection.is_named_in(cause), cause


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
