"""The table of gradient tests."""

import pytest

from fixtures.gradients.cases.upstream_bugs import UPSTREAM_BUGS
from fixtures.report.gradients import Outcome, report_lines, what_is_wrong

BUG = UPSTREAM_BUGS["powersgd_nan"]


def outcome(word: str, *subjects: str, why: str = "", bug: bool = False, avoided: bool = False) -> Outcome:
    given = BUG if bug else None
    return Outcome(test="test", subjects=subjects, outcome=word, why=why, bug=given, avoided=avoided)


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
        "ddp_options:check on 2cpu, hook bf16, seed 0: rank 1, step 2: parameter 0 is 1\n  File ...",
        "AssertionError: rank 1, step 2: parameter 0 is 1\nassert not ['parameter 0 is 1']",
    ],
)
def test_the_line_of_a_failure_is_the_violation(message: str) -> None:
    report = pytest.TestReport("", ("", 0, ""), {}, "failed", message, "call")
    assert what_is_wrong(report) == "rank 1, step 2: parameter 0 is 1"


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


def test_what_is_unsupported_says_why_once() -> None:
    lines = report_lines([outcome("unsupported", "option new", why="this torch has no new")] * 3, verbose=True)
    assert lines[-1] == "unsupported: this torch has no new (3 tests)"


def test_known_bugs_that_are_there_are_counted() -> None:
    lines = report_lines([outcome("right", bug=True, why="it is there"), outcome("right", bug=True, avoided=True)])
    assert lines[1:] == [
        "1 of 1 known DDP bugs are in this build of torch (-v: workarounds; docs/reference/torch-bugs.md)"
    ]


def test_with_v_a_known_bug_says_what_goes_wrong_and_what_to_do_instead() -> None:
    heading, *bug = report_lines([outcome("right", bug=True, why="it is there")], verbose=True)[1:]
    assert heading == "this torch build has 1 of 1 known DDP bugs; workarounds:"
    says = f"powersgd_nan (wrong numbers, seen in torch 2.11 to 2.15): {BUG.goes_wrong} -> {BUG.instead}"
    assert " ".join(line.strip() for line in bug) == says


def test_a_bug_that_is_gone_needs_no_advice() -> None:
    assert BUG.instead not in "".join(report_lines([outcome("right", bug=True)]))


def test_a_bug_that_shows_another_way_is_wrong() -> None:
    assert "wrong: test: it hangs now" in report_lines([outcome("wrong", bug=True, why="it hangs now")])
