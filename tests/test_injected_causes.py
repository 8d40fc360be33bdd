"""One cause at a time is injected into a config that has a baseline; the line of the failed test must name it."""

import re
from pathlib import Path

import pytest

from tests.command_line import Outcome, pytest_perf
from tests.injected import INJECT

CAUSES = {
    "late-2cpu-ddp": r"exposed communication \+.*; rank 1 is late: the others wait for it \+[2-9]\d",
    "wide-2cpu-ddp_default": r"exposed communication \+.*; largest bucket .* -> 26.9 MB",
    "fed-2cpu-feed_loader": r"\+[\d.]+ ms a step: .*in input \+",
    "wide-2cpu-own_bf16": r"dtypes of its collectives bfloat16 -> float32",
}
TESTS = {cell: f"perf/test_{'feeds' if 'feed' in cell else 'throughput'}.py" for cell in CAUSES}


def perf(storage: Path, *arguments: str, inject: bool) -> Outcome:
    tests = [f"{file}::{Path(file).stem}[{cell}]" for cell, file in TESTS.items()]
    own = ("--hook=tests.injected:hook", *(f"--workload=tests.injected:{name}" for name in ("late", "wide", "fed")))
    # What is slower is asked elsewhere: launches of the wide cells may lie apart by half on a busy machine.
    quick = ("--launches=2", "--steps=4", "--warmup=4", "--false-alarms=90", "--min-slowdown=50")
    return pytest_perf(storage, *tests, *own, *quick, *arguments, variables={INJECT: "1" if inject else "0"})


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run with every cause injected, judged by a baseline without any."""
    storage = tmp_path_factory.mktemp("baselines")
    saved = perf(storage, "--benchmark-save=before", inject=False)
    assert saved.exit_code == 0, saved.output
    return perf(storage, inject=True)


@pytest.mark.parametrize("cell", CAUSES)
def test_the_injected_cause_is_named(injected: Outcome, cell: str) -> None:
    _, found, after = injected.output.partition(f"[{cell}] ___")
    assert found, f"{cell} did not fail:\n{injected.output}"
    verdict, cause = [line for line in after.splitlines()[1:] if line][:2]
    assert verdict.startswith("slower by ")
    assert re.search(CAUSES[cell], cause), cause
