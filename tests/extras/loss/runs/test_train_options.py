"""Whole runs with --train: what is collected, how long it takes, and the best config."""

from pathlib import Path

import pytest

from tests.command_line import Outcome
from tests.extras.loss.losing_ranks import EXCESS
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import pytest as forked_pytest

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


# The time of ``--train``, with ranks that answer from a table


STEADY = "--workload=tests.workloads_for_tests:steady"


def compared(folder: Path, *given: str) -> str:
    plugin = "-ptests.extras.loss.losing_ranks"
    return perf(folder, "perf/test_loss.py", STEADY, "-k", "2cpu-bf16]", "--train=100", plugin, *given).unwrapped


def test_no_training_begins_for_which_there_is_no_time(tmp_path: Path) -> None:
    said = compared(tmp_path, "--minutes=1e-9")
    assert "loss not compared: 5 trainings of 100 steps take about 0 s, --minutes allows 0 s: lower" in said


# The options of ``--train``, and which tests it collects


SIGNS = "tests.extras.loss.learnable:half_dropped"


def collected(*arguments: str) -> list[str]:
    return forked_pytest("-p", "no:cacheprovider", "perf", "--collect-only", "-q", *arguments).test_ids


def test_the_loss_is_compared_on_request_after_all_that_is_measured() -> None:
    assert [test for test in collected("-k", "bf16") if "loss" in test] == []
    with_train = collected("-k", "2cpu-bf16", "--train=300")
    assert [test.partition("::")[2] for test in with_train if "loss" in test] == ["test_loss[vit_tiny-2cpu-bf16]"]
    assert "loss" in with_train[-1]


def test_a_script_and_a_hook_of_the_users_have_the_test_too() -> None:
    found = collected("--script=tests/extras/loss/learnable.py", f"--hook={SIGNS}", "--train=300")
    assert [test.rpartition("2cpu-")[2] for test in found if "test_loss" in test] == ["bf16]", "half_dropped]"]


def test_other_hooks_are_compared_where_k_names_them() -> None:
    found = [test for test in collected("-k", "powersgd_rank4", "--train=300") if "test_loss" in test]
    assert [test.partition("::")[2] for test in found] == ["test_loss_on_request[vit_tiny-2cpu-powersgd_rank4]"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--train=19",), "--train must be 20 or more, got 19"),
        (("--train=300", "--quick"), "leave out --quick"),
    ],
)
def test_a_command_line_that_compares_nothing_is_refused(given: tuple[str, ...], said: str) -> None:
    outcome = forked_pytest("perf", *given).exits(pytest.ExitCode.USAGE_ERROR)
    assert said in outcome.errors
