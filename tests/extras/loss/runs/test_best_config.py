"""The loss of the best config of a search, with ranks that answer from a table."""

from pathlib import Path

import pytest

from tests.command_line import Outcome
from tests.extras.loss.losing_ranks import EXCESS
from tests.fake_gpus import machine
from tests.forked import perf

PLUGINS = [f"-ptests.{name}" for name in ("fake_gpus", "extras.tune.tuned_ranks", "extras.loss.losing_ranks")]


def searched(folder: Path, *given: str, excess: str = "0") -> Outcome:
    """A search that bf16 wins."""
    options = ("perf", "--tune", "--allow=lossy", "--workload=tests.workloads_for_tests:steady", *PLUGINS)
    return perf(folder, *options, *given, variables=machine() | {EXCESS: excess})


def test_without_train_the_search_says_that_no_loss_was_compared(tmp_path: Path) -> None:
    assert "loss not compared: --train 300 compares it" in searched(tmp_path).unwrapped


@pytest.mark.parametrize(("excess", "advised"), [("0", True), ("0.2", False)])
def test_the_best_is_advised_if_its_loss_is_no_higher_than_seeds_explain(
    tmp_path: Path, excess: str, advised: bool
) -> None:
    found = searched(tmp_path, "--train=100", excess=excess)
    assert ("NOT ADVISED, its loss is higher: fastest for steady" in found.unwrapped) != advised
    assert ("  PyTorch:" in found.output) == advised
    assert ("no difference seen" if advised else "higher than seeds explain") in found.unwrapped
