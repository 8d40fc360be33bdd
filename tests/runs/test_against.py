"""``--against`` decides from pairs of launches; that launches are those of two builds is shown in tests/e2e."""

import re
import sys
import venv
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf
from tests.runs.another_build import CANNOT, FACTOR, SPREAD
from tests.saved_records import Record, only_info

ONE_RANK = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", "-k", "1cpu-ddp]")


def perf(folder: Path, *arguments: str, **variables: str) -> Outcome:
    """Against an interpreter with the same torch."""
    wanted = (
        *QUICK,
        "-p",
        "tests.runs.another_build",
        f"--against={sys.executable}",
        f"--benchmark-json={folder / 'run.json'}",
    )
    return pytest_perf(folder / "baselines", *wanted, *arguments, variables=variables)


def record(folder: Path) -> Record:
    return only_info(folder / "run.json")


@pytest.mark.parametrize(("spread", "word", "pairs"), [("1", "ok", 2), ("1.5", "unclear", 12)])
def test_the_same_on_both_sides_does_not_fail_and_gets_more_pairs_where_they_differ(
    tmp_path: Path, spread: str, word: str, pairs: int
) -> None:
    outcome = perf(tmp_path, *ONE_RANK, "--min-slowdown=30", "--launches=2", **{SPREAD: spread})
    assert outcome.exit_code == 0, outcome.output
    assert (record(tmp_path)["verdict"]["word"], record(tmp_path)["against"]["pairs"]) == (word, pairs)


def test_bare_all_reduces_are_compared_as_steps_are(tmp_path: Path) -> None:
    """An all-reduce that takes a hundred times as long in this build."""
    arguments = ("perf/test_collectives.py", "-k", "all_reduce_64kb", "--launches=2")
    outcome = perf(tmp_path, *arguments, **{FACTOR: "0.01"})
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(r"slower by [\d.]+ % than the other build", outcome.output)
    row = r"test_collectives\[2cpu-all_reduce_64kb\] +[\d.]+ +[\d.]+ +[\d.]+ slower "
    assert re.search(row, outcome.output.partition("here against ")[2]), outcome.output
    own, other = record(tmp_path)["launch_medians_s"], record(tmp_path)["against"]["launch_medians_s"]
    assert own == pytest.approx([100 * time for time in other])


def test_a_skipped_test_says_under_which_build_it_cannot_be_run(tmp_path: Path) -> None:
    reason = "PowerSGD of rank 1 compresses nothing"
    chosen = ("perf/test_throughput.py", "-k", "vit_tiny-2cpu-powersgd_rank1]", "-rs")
    outcome = perf(tmp_path, *chosen, **{CANNOT: reason})
    assert f"({sys.executable}): {reason}" in outcome.unwrapped, outcome.output
    assert "1 skipped" in outcome.output


def test_an_interpreter_without_torch_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    outcome = perf(tmp_path, *ONE_RANK, f"--against={tmp_path / 'bare/bin/python'}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"--against: {tmp_path / 'bare/bin/python'} cannot import torch: ModuleNotFoundError" in outcome.errors


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("/no/such/python", "there is no interpreter at /no/such/python"),
        ("HEAD~1000000", "there is no interpreter at HEAD~1000000, and no such revision"),
        ("/bin/true", "/bin/true exited with code 0 while importing torch, tests.workloads_for_tests"),
    ],
)
def test_what_is_no_interpreter_is_named(tmp_path: Path, named: str, says: str) -> None:
    outcome = perf(tmp_path, *ONE_RANK, f"--against={named}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert says in outcome.errors
