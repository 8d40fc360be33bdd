"""``pytest perf`` as a user runs it: a process of its own in the repository's root, here without GPUs."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests import warm_ranks

ROOT = Path(__file__).parent.parent
QUICK = ("--launches=1", "--steps=3", "--warmup=4")
# Options of pytest with which only what is selected is measured.
ALONE = ("-p", "no:fixtures.session.references")
# Of every command: what is slower need not be waited for, nothing is measured along, there are no GPUs, and lines are
# as wide everywhere.
ENVIRONMENT = {
    "PYTEST_ADDOPTS": " ".join(["-p tests.run_of_a_test", *ALONE]),
    "CUDA_VISIBLE_DEVICES": "",
    "COLUMNS": "200",
}
# A module of a user, with a workload; it imports torch in ranks only, so that runs without ranks need not.
MY_PROJECT = """
from fixtures.matrix.workloads import Workload

def model():
    from torch import nn
    return nn.Linear(64, 64)

def sample():
    import torch
    return (torch.randn(64),)

def optimizer(parameters):
    from torch.optim import SGD
    return SGD(parameters, lr=0.001)

workload = Workload(
    name="mine",
    batch_size=2,
    model=model,
    sample=sample,
    loss=lambda model, inputs: model(inputs).square().mean(),
    optimizer=optimizer,
)
"""
# Other runs on this machine may have to end first.
_DEADLINE_S = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a command left behind: its exit code, its standard output and its standard error."""

    exit_code: int
    output: str
    errors: str

    def exits(self, code: int) -> Self:
        """The same, which ended with this code."""
        assert self.exit_code == code, self.output + self.errors
        return self

    @property
    def unwrapped(self) -> str:
        """Its standard output as one line, each run of white space as one space."""
        return " ".join(self.output.split())

    @property
    def test_ids(self) -> list[str]:
        """The tests that ``--collect-only -q`` lists."""
        return [line for line in self.output.splitlines() if "::" in line]


def pytest_perf(storage: Path, *arguments: str, variables: dict[str, str] | None = None) -> Outcome:
    """Run ``pytest`` with these arguments and environment variables; its baselines are in ``storage``."""
    return run(
        sys.executable,
        *("-m", "pytest", "-p", "no:cacheprovider", *warm_ranks.options(), f"--benchmark-storage={storage}"),
        *arguments,
        variables=variables,
    )


def run(*command: str, variables: dict[str, str] | None = None) -> Outcome:
    """Run a command from the repository's root to its end."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
    )
    return Outcome(exit_code=done.returncode, output=done.stdout, errors=done.stderr)


def command_here(*arguments: str | Path) -> Outcome:
    """``python -m fixtures`` with these arguments, in this process."""
    from fixtures.__main__ import main  # the warm process of forked.py imports nothing of fixtures before pytest does

    output, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.setenv("COLUMNS", ENVIRONMENT["COLUMNS"])
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Outcome(exit_code=code, output=output.getvalue(), errors=errors.getvalue())


def refused(*arguments: str | Path) -> str:
    """What ``command_here`` prints of an error in its arguments or files."""
    outcome = command_here(*arguments)
    assert (outcome.exit_code, outcome.output) == (2, ""), outcome
    return outcome.errors
