"""Whole runs with --train: what is collected, how long it takes, and the best config."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.extras.loss.losing_ranks import EXCESS
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import perf as pytest_perf
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


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        (("-k", "bf16"), []),
        (("-k", "2cpu-bf16", "--train=300"), ["test_loss[vit_tiny-2cpu-bf16]"]),
        # A script and a hook of the user's have the test too.
        (
            ("--script=tests/extras/loss/learnable.py", f"--hook={SIGNS}", "--train=300"),
            ["test_loss[learnable-2cpu-bf16]", "test_loss[learnable-2cpu-half_dropped]"],
        ),
        # Other hooks where -k names them.
        (("-k", "powersgd_rank4", "--train=300"), ["test_loss_on_request[vit_tiny-2cpu-powersgd_rank4]"]),
    ],
    ids=["without", "bf16", "script and hook", "another hook"],
)
def test_the_loss_is_compared_on_request_after_all_that_is_measured(
    arguments: tuple[str, ...], tests: list[str]
) -> None:
    found = [re.sub("_[0-9a-f]{6}-", "-", test.partition("::")[2]) for test in collected(*arguments)]
    assert [test for test in found if "test_loss" in test] == tests
    assert found[len(found) - len(tests) :] == tests


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--train=19",), "--train must be 20 or more, got 19"),
        (("--train=300", "--quick"), "leave out --quick"),
    ],
)
def test_a_command_line_that_compares_nothing_is_refused(given: tuple[str, ...], said: str) -> None:
    assert said in forked_pytest("perf", *given).exits(pytest.ExitCode.USAGE_ERROR).errors


HERE = "tests.hooks_for_tests"


def test_a_hook_with_a_higher_loss_is_not_wrong_and_the_next_command_repeats_its_training(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    options = ("-p", "tests.extras.loss.harmed_loss", *QUICK, f"--hook={HERE}:remembers")
    chosen = "2cpu-own_remembers] or default and own_remembers or training and own_remembers"
    outcome = pytest_perf(tmp_path, "perf", *options, "-k", chosen, f"--benchmark-json={file}").exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert "; loss of the small problem beyond its limit: own_remembers +5.6 %" in outcome.unwrapped
    assert "wrong gradients" not in outcome.output
    record = json.loads(file.read_text())
    assert {test["extra_info"]["fidelity"] for test in record["benchmarks"]} == {"lossy"}
    (typed,) = re.findall(r"^next: state the cost as loss_excess_percent, .* (perf -k .*)$", outcome.output, re.M)
    again = pytest_perf(tmp_path, *shlex.split(typed), *options[:2])
    assert list(record["failed"]) == re.findall(r"^FAILED (\S+)", again.output, re.M)


def test_a_precision_is_a_part_of_the_name_of_a_training(tmp_path: Path) -> None:
    both = ("--precision=autocast", "--precision=fp32")
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", "-k", "training and fp16_wrapper", *both)
    assert outcome.test_ids == [
        "perf/test_training.py::test_training[fp16_wrapper-autocast]",
        "perf/test_training.py::test_training[fp16_wrapper]",
    ]


def test_training_comes_last(tmp_path: Path) -> None:
    tests = pytest_perf(tmp_path, "perf", "--collect-only", "-q").test_ids
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests if "test_collectives" not in test))
    assert files[-1] == "perf/test_training.py"
