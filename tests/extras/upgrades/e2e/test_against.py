"""``--against``: real launches under another interpreter, in turn with our own.

What is made of pairs of launches is shown by ``../runs/test_against.py``, what cannot be measured there and by
``../test_other_build.py``.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.command_line import QUICK, ROOT, Outcome
from tests.forked import live_perf as pytest_perf
from tests.own_repository import checkout, git, job
from tests.saved_records import read
from tests.workloads_for_tests import STEP_MS


@pytest.fixture(scope="module")
def other_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment: the same torch, in which the steps of ``steady`` take 20 ms."""
    python = tmp_path_factory.mktemp("other") / "python"
    python.write_text(f'#!/bin/sh\nexec env {STEP_MS}=20 "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory, other_build: Path) -> tuple[Outcome, Path]:
    """Three times as slow here as there."""
    folder = tmp_path_factory.mktemp("slower")
    outcome = pytest_perf(
        folder / "baselines",
        *("perf/test_scaling.py", "-k", "1cpu-ddp]", "--workload=tests.workloads_for_tests:steady", *QUICK),
        *(f"--against={other_build}", "--launches=2", "-p", "tests.any_difference", f"--traces={folder / 'traces'}"),
        *(f"--benchmark-json={folder / 'run.json'}", f"--junitxml={folder / 'junit.xml'}"),
        variables={STEP_MS: "60"},
    )
    return outcome, folder


def test_a_test_that_is_slower_than_under_the_other_build_fails(slower: tuple[Outcome, Path]) -> None:
    outcome, _ = slower
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(r"slower by [\d.]+ % than the other build \(95 % interval", outcome.output)


def test_traces_of_both_builds_are_kept(slower: tuple[Outcome, Path]) -> None:
    names = sorted(path.name for path in (slower[1] / "traces").iterdir())
    assert [name.removeprefix("test_scaling-steady-1cpu-ddp-") for name in names] == [
        "of-the-other-build-rank0.json.gz",
        "rank0.json.gz",
    ]


def test_modules_that_both_sides_import_from_one_file_are_named(slower: tuple[Outcome, Path]) -> None:
    file = ROOT / "tests/workloads_for_tests.py"
    assert f" the same file on both sides: tests.workloads_for_tests ({file}) " in slower[0].unwrapped
    assert read(slower[1] / "run.json")["environment"]["modules"] == {"tests.workloads_for_tests": str(file)}


def test_a_revision_of_the_users_code_is_measured_next_to_the_working_tree(tmp_path: Path) -> None:
    """In its last commit a step takes 20 ms, in the working tree 60. The checkout stays as it was."""
    top = checkout(tmp_path / "repository", committed=job(), now=job(0.06))
    outcome = pytest_perf(
        tmp_path,
        *("perf/test_scaling.py", "-k", "1cpu-ddp]", "--workload=my_job.training:workload", "--against=HEAD"),
        *(*QUICK, "--launches=2", "-p", "tests.any_difference", "--explain=none"),
        variables={"PYTHONPATH": str(top / "src")},
    ).exits(pytest.ExitCode.TESTS_FAILED)
    assert re.search(r"here against HEAD \([0-9a-f]{10}\) of repository: 1 slower", outcome.output)
    assert re.search(r"slower by [\d.]+ % than the other build", outcome.output)
    builds = r"differences between the two builds: my_job [0-9a-f]{10} -> [0-9a-f]{10}-dirty\n"
    assert re.search(builds, outcome.output), outcome.output
    assert "the same file on both sides" not in outcome.output
    assert git(top, "status", "--short") == " M src/my_job/training.py\n"
    assert len(git(top, "worktree", "list").splitlines()) == 1
