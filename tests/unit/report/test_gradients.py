"""The table of gradient tests, and the sentence on the training of a small problem."""

from dataclasses import replace

import pytest

from fixtures.gradients.hook_training import effect
from fixtures.records.loss_comparison import Effect
from fixtures.report.gradients import Outcome, is_wrong_in_groups_alone, loss_lines, report_lines, what_is_wrong


def outcome(word: str, *subjects: str, why: str = "") -> Outcome:
    return Outcome(test="test", subjects=subjects, outcome=word, why=why)


def test_each_hook_and_option_and_way_has_a_row() -> None:
    outcomes = [
        outcome("right", "scenario join", "option default", "hook bf16"),
        outcome("right", "update fused"),
        outcome("wrong", "hook bf16", why="off by one"),
    ]
    *rows, wrong = report_lines(outcomes, verbose=True)[2:]
    assert [row.split() for row in rows] == [
        ["hook", "bf16", "1", "1"],
        ["option", "default", "1"],
        ["scenario", "join", "1"],
        ["update", "fused", "1"],
    ]
    assert wrong == "wrong: test: off by one"


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: rank 1, step 2: parameter 0 is 1\nrank 1, step 3: no\nasked: check:check on 2cpu, hook bf16",
        "hook_steps:check on 2cpu, hook bf16, seed 0: rank 1, step 2: parameter 0 is 1\n  File ...",
        "AssertionError: rank 1, step 2: parameter 0 is 1\nassert not ['parameter 0 is 1']",
    ],
)
def test_the_line_of_a_failure_is_the_violation(message: str) -> None:
    report = pytest.TestReport("", ("", 0, ""), {}, "failed", message, "call")
    assert what_is_wrong(report) == "rank 1, step 2: parameter 0 is 1"


def test_a_hook_that_averages_over_all_ranks_is_wrong_in_groups_alone() -> None:
    groups = [outcome("wrong", "hook own", f"scenario {name}") for name in ("group_of_pairs", "groups_in_turn")]
    right, elsewhere = outcome("right", "hook own", "scenario join"), outcome("wrong", "hook own", "option default")
    assert is_wrong_in_groups_alone("own", [*groups, right, outcome("wrong", "hook other")])
    assert not is_wrong_in_groups_alone("own", [*groups, right, elsewhere])
    assert not is_wrong_in_groups_alone("own", groups)
    assert not is_wrong_in_groups_alone("own", [right])


def test_without_v_there_are_the_wrong_rows_and_the_counts() -> None:
    outcomes = [outcome("right", "hook bf16"), outcome("wrong", "hook fp16", why="off by one"), outcome("unsupported")]
    assert report_lines(outcomes) == [
        "tests of   wrong",
        "---------  -----",
        "hook fp16      1",
        "wrong: test: off by one",
        "1 right, 1 wrong, 1 unsupported (-v: each, and why)",
    ]
    assert report_lines(outcomes[:1]) == ["1 right, none wrong (-v: each, and why)"]


def test_a_guarantee_has_one_line_and_no_guarantee_a_count() -> None:
    exact = replace(outcome("right", "hook own"), guarantee="exact at 2 ranks")
    lines = report_lines([exact, outcome("not covered", "hook other", why="it rounds")])
    assert lines == ["own: exact at 2 ranks", "1 right, none wrong, 1 not covered (-v: each, and why)"]


def test_what_is_unsupported_says_why_once() -> None:
    lines = report_lines([outcome("unsupported", "option new", why="this torch has no new")] * 3, verbose=True)
    assert lines[-1] == "unsupported: this torch has no new (3 tests)"


# The sentence on the training of a small problem


HIGHER = "the final loss is higher with"
CURVES = [(2.0, 0.5), (2.2, 0.7)]


def trained(config: str, excess: float) -> Effect:
    return replace(effect(config, "2cpu", CURVES, CURVES), excess_percent=excess, margin_percent=0.1)


BF16, LOW_RANK = trained("bf16", 0.01), trained("powersgd_rank1", 26)
FEWER = [trained("accumulate_2", 46), trained("batch_x4", 182), trained("no_comm", 787)]


@pytest.mark.parametrize(
    ("effects", "says"),
    [
        ([BF16], "1 of 1 configs reach the loss of uncompressed training (-v: the table)"),
        (
            [BF16, LOW_RANK],
            f"1 of 2 configs reach the loss of uncompressed training; {HIGHER} powersgd_rank1 +26 % (-v: the table)",
        ),
        (
            [BF16, LOW_RANK, *FEWER],
            f"{HIGHER} powersgd_rank1 +26 %, 3 that exchange less often +46 to +787 % (-v: the table)",
        ),
        (
            [FEWER[0]],
            f"0 of 1 configs reach the loss of uncompressed training; {HIGHER} accumulate_2 +46 % (-v: the table)",
        ),
    ],
)
def test_configs_that_exchange_less_often_are_counted(effects: list[Effect], says: str) -> None:
    assert " ".join(line.strip() for line in loss_lines(effects)).endswith(says)
