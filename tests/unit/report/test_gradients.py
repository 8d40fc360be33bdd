"""The table of gradient tests."""

from dataclasses import replace

import pytest

from fixtures.report.gradients import Outcome, is_wrong_in_groups_alone, report_lines, what_is_wrong


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
