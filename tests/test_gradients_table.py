"""The table after gradients were compared."""

import pytest

from fixtures.matrix.upstream_bugs import UPSTREAM_BUGS
from fixtures.report.gradients import Seen, report_lines, what_is_wrong

BUG = UPSTREAM_BUGS["powersgd_nan"]


def seen(outcome: str, *subjects: str, why: str = "", bug: bool = False, avoided: bool = False) -> Seen:
    given = BUG if bug else None
    return Seen(test="test", subjects=subjects, outcome=outcome, why=why, bug=given, avoided=avoided)


def test_each_hook_and_option_and_way_has_a_row() -> None:
    found = [
        seen("right", "way join", "option default", "hook bf16"),
        seen("right", "update fused"),
        seen("wrong", "hook bf16", why="off by one"),
    ]
    *rows, wrong = report_lines(found)[2:]
    assert [row.split() for row in rows] == [
        ["hook", "bf16", "1", "1"],
        ["option", "default", "1"],
        ["way", "join", "1"],
        ["update", "fused", "1"],
    ]
    assert wrong == "wrong: test: off by one"


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: check:check on 2cpu, hook bf16, seed 0:\nrank 1, step 2: parameter 0 is 1\nrank 1, step 3: no",
        "check:check on 2cpu, hook bf16, seed 0: rank 1, step 2: parameter 0 is 1\n  File ...",
        "AssertionError: rank 1, step 2: parameter 0 is 1\nassert not ['parameter 0 is 1']",
    ],
)
def test_the_line_of_a_failure_is_the_violation(message: str) -> None:
    report = pytest.TestReport("", ("", 0, ""), {}, "failed", message, "call")
    assert what_is_wrong(report) == "rank 1, step 2: parameter 0 is 1"


def test_what_is_unsupported_says_why_once() -> None:
    lines = report_lines([seen("unsupported", "option new", why="this torch has no new")] * 3)
    assert lines[-1] == "unsupported: this torch has no new (3 tests)"


def test_a_known_bug_that_is_there_says_what_to_do_instead() -> None:
    lines = report_lines([seen("right", bug=True, why="it is there"), seen("right", bug=True, avoided=True)])
    assert lines == [
        "",
        "known bugs of torch: 1 of 1 are in this build; instead:",
        f"    powersgd_nan (wrong numbers, seen in torch 2.11 to 2.15): {BUG.goes_wrong} -> {BUG.instead}",
    ]


def test_a_bug_that_is_gone_needs_no_advice() -> None:
    assert BUG.instead not in "".join(report_lines([seen("right", bug=True)]))


def test_a_bug_that_shows_another_way_is_wrong() -> None:
    assert "wrong: test: it hangs now" in report_lines([seen("wrong", bug=True, why="it hangs now")])
