"""The time of ``--train``, with ranks that answer from a table."""

from pathlib import Path

from tests.forked import perf

STEADY = "--workload=tests.workloads_for_tests:steady"


def compared(folder: Path, *given: str) -> str:
    plugin = "-ptests.extras.loss.losing_ranks"
    return perf(folder, "perf/test_loss.py", STEADY, "-k", "2cpu-bf16]", "--train=100", plugin, *given).unwrapped


def test_the_run_says_how_long_the_trainings_take(tmp_path: Path) -> None:
    said = compared(tmp_path)
    assert "a training of 100 steps takes 0 s; all 5 at least take 0 s, --minutes allows 20 min" in said
    assert "no difference seen" in said


def test_no_training_begins_for_which_there_is_no_time(tmp_path: Path) -> None:
    said = compared(tmp_path, "--minutes=1e-9")
    assert "loss not compared: 5 trainings of 100 steps take about 0 s, --minutes allows 0 s: lower" in said
