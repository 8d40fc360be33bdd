"""The table after gradients were compared."""

from fixtures.matrix.upstream_bugs import UPSTREAM_BUGS
from fixtures.report.gradients import Seen, report_lines

BUG = UPSTREAM_BUGS["powersgd_nan"]


def seen(outcome: str, *subjects: str, why: str = "", bug: bool = False, avoided: bool = False) -> Seen:
    given = BUG if bug else None
    return Seen(test="test", subjects=subjects, outcome=outcome, why=why, bug=given, avoided=avoided)


def test_each_hook_and_option_has_a_row() -> None:
    lines = report_lines([seen("right", "option default", "hook bf16"), seen("wrong", "hook bf16", why="off by one")])
    assert [line.split() for line in lines[2:4]] == [["hook", "bf16", "1", "1"], ["option", "default", "1"]]
    assert lines[4] == "wrong: test: off by one"


def test_what_is_unsupported_says_why_once() -> None:
    lines = report_lines([seen("unsupported", "option new", why="this torch has no new")] * 3)
    assert lines[-1] == "unsupported: this torch has no new (3 tests)"


def test_a_known_bug_that_is_there_says_what_to_do_instead() -> None:
    lines = report_lines([seen("right", bug=True, why="it is there"), seen("right", bug=True, avoided=True)])
    assert lines == [
        "",
        "known bugs of torch: 1 of 1 are in this build; instead:",
        f"    {BUG.goes_wrong} -> {BUG.instead}",
    ]


def test_a_bug_that_is_gone_needs_no_advice() -> None:
    assert BUG.instead not in "".join(report_lines([seen("right", bug=True)]))


def test_a_bug_that_shows_another_way_is_wrong() -> None:
    assert "wrong: test: it hangs now" in report_lines([seen("wrong", bug=True, why="it hangs now")])
