"""A/B test: Yuen's test of trimmed means, and the words for its results."""

import math

import numpy as np
import pytest
from scipy import stats

from fixtures.stats.ab_test import Side, judge_sides

QUIET = [1.0, 1.001, 0.999]


@pytest.mark.parametrize("launches", [3, 6, 9, 12])
def test_the_test_is_that_of_scipy(launches: int) -> None:
    rng = np.random.default_rng(launches)
    own, other = (np.exp(0.01 * rng.standard_normal(launches) + change) for change in (0.02, 0.0))
    verdict, (low, high) = judge_sides(list(own), list(other))
    expected = stats.ttest_ind(
        np.log(own), np.log(other), equal_var=False, trim=launches // 4 / launches, alternative="greater"
    )
    assert verdict.p_value == pytest.approx(expected.pvalue)
    assert math.log1p(low / 100) + math.log1p(high / 100) == pytest.approx(
        2 * math.log1p((verdict.change_percent or 0) / 100)
    )


@pytest.mark.parametrize(
    ("own", "word", "reason"),
    [
        ([1.3 * time for time in QUIET], "slower", "slower by 30.00 % than the other build (95 % interval "),
        ([0.7 * time for time in QUIET], "faster", "faster by 30.00 % than the other build (95 % interval "),
        (QUIET, "ok", "no difference of 1 %: 0.00 % (95 % interval "),
        ([1.01, 1.02, 1.03], "unclear", "; it takes a change over "),
        ([0.5, 1.0, 2.0], "unclear", "; it takes more launches, or an interval within 1 %, to decide: "),
    ],
)
def test_each_kind_of_change_has_its_words(own: list[float], word: str, reason: str) -> None:
    verdict, _ = judge_sides(own, QUIET)
    assert verdict.word == word
    assert reason in verdict.reason


def test_an_undecided_test_names_the_change_that_decides_and_a_small_one_is_ok() -> None:
    verdict, (low, _) = judge_sides([1.018, 1.02, 1.024], QUIET, looks=4, tests=10)
    assert verdict.word == "unclear"
    assert low > 0
    assert f"it takes a change over {verdict.threshold_percent:.2f} %" in verdict.reason
    assert judge_sides([1.0051, 1.005, 1.0049] * 3, QUIET * 3)[0].word == "ok"


def test_swapping_the_sides_negates_the_change() -> None:
    verdict, (low, high) = judge_sides([1.02, 1.03, 1.05], QUIET)
    other, (other_low, other_high) = judge_sides(QUIET, [1.02, 1.03, 1.05])
    pairs = [(verdict.change_percent, other.change_percent), (low, other_high), (high, other_low)]
    for one, opposite in pairs:
        assert math.log1p((one or 0) / 100) == pytest.approx(-math.log1p((opposite or 0) / 100))


@pytest.mark.parametrize(("change", "word"), [(1.0, "ok"), (1.03, "slower")])
def test_one_slow_process_a_side_neither_decides_nor_keeps_a_test_undecided(change: float, word: str) -> None:
    own = [change * time for time in (*QUIET, *QUIET[:2], 1.08)]
    assert judge_sides(own, QUIET * 2, looks=4)[0].word == word
    assert judge_sides(own, [*QUIET, *QUIET[:2], 1.12], looks=4)[0].word == word
    assert judge_sides([change, 1.001 * change, 1.08 * change], QUIET, looks=4)[0].word == "unclear"
    assert Side.of(own).outlying_percent == pytest.approx((8.0,), abs=0.1)
    assert Side.of([1.0, 1.02, 1.04, 1.06, 1.08, 1.1]).outlying_percent == ()


def test_one_launch_a_side_and_two_that_contradict_decide_nothing() -> None:
    assert judge_sides([1.3], [1.0])[0].word == "unclear"
    with pytest.raises(ValueError, match="no launch"):
        judge_sides([], [])
    verdict, (low, high) = judge_sides([0.5, 2.0], QUIET[:2], looks=8, false_alarms_percent=1e-6)
    assert verdict.word == "unclear"
    assert verdict.threshold_percent == pytest.approx(999_900)
    assert -100 < low < 0 < high < 1e7
