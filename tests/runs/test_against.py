"""``--against`` decides from pairs of launches; that launches are those of two builds is shown in tests/e2e."""

import re
import stat
import sys
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf
from tests.runs.another_build import CANNOT, FACTOR, SPREAD
from tests.saved_records import Record, only_info

PAIRS = ("--launches=2", "--max-pairs=3")
ONE_RANK = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", "-k", "1cpu-ddp]")


@pytest.fixture(scope="module")
def other_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment: the same torch."""
    python = tmp_path_factory.mktemp("other") / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def perf(folder: Path, other: Path, *arguments: str, **variables: str) -> Outcome:
    wanted = (*QUICK, "-p", "tests.runs.another_build", f"--against={other}", f"--benchmark-json={folder / 'run.json'}")
    return pytest_perf(folder / "baselines", *wanted, *arguments, variables=variables)


def record(folder: Path) -> Record:
    return only_info(folder / "run.json")


@pytest.mark.parametrize(("spread", "word", "pairs"), [("1", "ok", 2), ("1.5", "unclear", 3)])
def test_the_same_on_both_sides_does_not_fail_and_gets_more_pairs_where_they_differ(
    tmp_path: Path, other_build: Path, spread: str, word: str, pairs: int
) -> None:
    outcome = perf(tmp_path, other_build, *ONE_RANK, "--min-slowdown=30", *PAIRS, **{SPREAD: spread})
    assert outcome.exit_code == 0, outcome.output
    assert (record(tmp_path)["verdict"]["word"], record(tmp_path)["against"]["pairs"]) == (word, pairs)


def test_bare_all_reduces_are_compared_as_steps_are(tmp_path: Path, other_build: Path) -> None:
    """An all-reduce that takes a hundred times as long in this build."""
    arguments = ("perf/test_collectives.py", "-k", "all_reduce_64kb", "--launches=2")
    outcome = perf(tmp_path, other_build, *arguments, **{FACTOR: "0.01"})
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(r"slower by [\d.]+ % than the other build", outcome.output)
    row = r"test_collectives\[2cpu-all_reduce_64kb\] +[\d.]+ +[\d.]+ +[\d.]+ slower "
    assert re.search(row, outcome.output.partition("here against ")[2]), outcome.output
    own, other = record(tmp_path)["launch_medians_s"], record(tmp_path)["against"]["launch_medians_s"]
    assert own == pytest.approx([100 * time for time in other])


def test_a_skipped_test_says_under_which_build_it_cannot_be_run(tmp_path: Path, other_build: Path) -> None:
    reason = "PowerSGD of rank 1 compresses nothing"
    chosen = ("perf/test_throughput.py", "-k", "vit_tiny-2cpu-powersgd_rank1]", "-rs")
    outcome = perf(tmp_path, other_build, *chosen, **{CANNOT: reason})
    assert f"({other_build}): {reason}" in outcome.unwrapped, outcome.output
    assert "1 skipped" in outcome.output
