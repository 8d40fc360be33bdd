"""The word of a test at the end of a run."""

import math
from dataclasses import replace

import pytest

from fixtures.stats.decision import decide, explained_by_others_percent, with_other_work
from fixtures.stats.verdict import Verdict, judge

QUIET = [[0.1, 0.1, 0.1]] * 3


def held(change_percent: float) -> Verdict:
    """A test that looked slower or faster when it was measured; its threshold is 3.9 %."""
    verdict = judge([0.1 * (1 + change_percent / 100)] * 3, QUIET)
    assert verdict.word in ("slower", "faster")
    return replace(verdict, word="held")


def decided(
    measured: Verdict,
    *,
    threshold_percent: float = 1,
    scale: float = 1,
    explained_percent: float = 0,
    canaries_are_slower: bool = False,
) -> Verdict:
    return decide(
        measured,
        replace(measured, threshold_percent=threshold_percent),
        scale=scale,
        explained_percent=explained_percent,
        canaries_are_slower=canaries_are_slower,
        min_slowdown_percent=1,
    )


@pytest.mark.parametrize(("change_percent", "word"), [(20, "slower"), (-20, "faster")])
def test_a_held_test_that_nothing_explains_keeps_its_direction(change_percent: float, word: str) -> None:
    assert decided(held(change_percent)).word == word


@pytest.mark.parametrize("change_percent", [20, -20])
@pytest.mark.parametrize(
    ("scale", "why"), [(2.5, "vary 2.5 times as much as usual"), (1, "launches of the other tests")]
)
def test_a_change_within_the_threshold_that_all_tests_give_is_unclear(
    change_percent: float, scale: float, why: str
) -> None:
    verdict = decided(held(change_percent), threshold_percent=30, scale=scale)
    assert (verdict.word, verdict.threshold_percent) == ("unclear", 30)
    assert why in verdict.reason
    assert verdict.reason.endswith("so the threshold is 30.0 %")


def test_the_other_tests_narrow_no_threshold() -> None:
    measured = held(20)
    assert decided(measured).threshold_percent == measured.threshold_percent


def test_a_test_that_was_ok_becomes_unclear_and_never_slower() -> None:
    measured = judge([0.102] * 3, QUIET)
    assert measured.word == "ok"
    assert decided(measured).word == "ok"
    assert decided(measured, threshold_percent=30).word == "unclear"


@pytest.mark.parametrize(("explained_percent", "word"), [(18, "unclear"), (5, "slower")])
def test_what_the_machine_explains_is_unclear(explained_percent: float, word: str) -> None:
    verdict = decided(held(20), explained_percent=explained_percent)
    assert verdict.word == word
    assert verdict.reason.endswith(f"; the machine explains {explained_percent}.0 %")


def test_slower_canaries_leave_a_test_of_few_unclear() -> None:
    verdict = decided(held(20), canaries_are_slower=True)
    assert verdict.word == "unclear"
    assert verdict.reason.endswith("; with fewer than 5 tests it is unknown how much of it the machine explains")


def test_other_work_leaves_a_slower_test_unclear_with_the_numbers() -> None:
    verdict = with_other_work(held(20), 1, 2)
    assert (verdict.word, verdict.exceeds) == ("unclear", True)
    why = "; other processes used 1.0 of 2 cores in every measurement, which explains 183 %"
    assert verdict.reason.endswith(why)


def test_other_work_explains_no_more_than_it_takes() -> None:
    assert explained_by_others_percent(0.1, 2) == 0
    assert explained_by_others_percent(2, 2) < math.inf
    slower = replace(held(400), word="slower")
    assert with_other_work(slower, 1, 2).word == "slower"
