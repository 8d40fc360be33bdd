"""Verdict: thresholds by hand and from scipy, properties, error rates by simulation, and its words."""

import math
from collections.abc import Sequence
from random import Random
from statistics import stdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fixtures.stats.verdict import Verdict, change_in_words, in_column, interval_in_words, judge, verdict_in_words

TIMES = st.floats(1e-4, 100)
LAUNCHES = st.lists(TIMES, min_size=1, max_size=4)
HISTORY = st.lists(LAUNCHES, min_size=1, max_size=5)
ONE_RECORD = [[0.1, 0.1, 0.1]]

# Student's t, from printed tables: 99 % one-sided with 4 and with 5 degrees of freedom.
T_4, T_5 = 3.747, 3.365


def percent(threshold: float) -> float:
    return 100 * math.expm1(threshold)


def test_one_record_is_judged_with_the_prior_of_one_percent_and_the_spread_of_two_is_pooled_with_it() -> None:
    verdict = judge([0.11], [[0.1]])
    assert verdict.change_percent == pytest.approx(10)
    assert verdict.threshold_percent == pytest.approx(percent(T_4 * 0.01 * math.sqrt(2)), rel=1e-3)  # 5.44 %
    assert (verdict.word, verdict.history) == ("slower", 1)
    low, high = math.log(0.1), math.log(0.104)
    spread = math.sqrt((4 * 0.01**2 + (high - low) ** 2 / 2) / 5)
    verdict = judge([0.1], [[0.1], [0.104]])
    assert verdict.threshold_percent == pytest.approx(percent(T_5 * spread * math.sqrt(1.5)), rel=1e-3)
    assert verdict.change_percent == pytest.approx(100 * math.expm1(low - (low + high) / 2))


@pytest.mark.parametrize("apart", [[0.1, 0.12, 0.14], [0.08, 0.1, 0.16]])
def test_launches_that_differ_much_raise_the_threshold(apart: list[float]) -> None:
    own = stdev([math.log(t) for t in apart]) / math.sqrt(3)
    assert own > 0.01
    expected = pytest.approx(percent(T_4 * own * math.sqrt(2)), rel=1e-3)
    assert judge(apart, [[0.1]]).threshold_percent == expected
    assert judge([0.1], [apart]).threshold_percent == expected


@pytest.mark.parametrize("tests", [1, 10, 40])
@pytest.mark.parametrize("false_alarms_percent", [0.1, 1, 5])
def test_alpha_is_divided_by_the_number_of_tests(tests: int, false_alarms_percent: float) -> None:
    verdict = judge([0.1], ONE_RECORD, tests=tests, false_alarms_percent=false_alarms_percent)
    quantile = stats.t.isf(false_alarms_percent / 100 / tests, 4)
    assert verdict.threshold_percent == pytest.approx(percent(quantile * 0.01 * math.sqrt(2)))


def test_a_change_at_the_threshold_has_the_p_value_of_a_false_alarm() -> None:
    threshold = judge([0.1], ONE_RECORD, tests=4).threshold_percent
    assert threshold is not None
    assert judge([0.1 * (1 + threshold / 100)], ONE_RECORD, tests=4).p_value == pytest.approx(0.01 / 4)


def test_a_slowdown_below_the_smallest_one_worth_failing_for_is_ok() -> None:
    verdict = judge([0.108], ONE_RECORD, min_slowdown_percent=9)
    assert verdict.word == "ok"
    assert verdict.threshold_percent == pytest.approx(9)
    assert judge([0.108], ONE_RECORD).word == "slower"
    assert judge([0.110], ONE_RECORD, min_slowdown_percent=9).word == "slower"


@pytest.mark.parametrize(
    ("now", "word"),
    [
        (0.08, "faster"),
        (0.094, "faster"),
        (0.096, "ok"),
        (0.1, "ok"),
        (0.105, "ok"),
        (0.106, "slower"),
        (0.2, "slower"),
    ],
)
def test_each_range_of_changes_has_its_word(now: float, word: str) -> None:
    assert judge([now], ONE_RECORD).word == word


def test_without_a_record_there_is_no_baseline_and_no_change() -> None:
    verdict = judge([0.1], [])
    assert (verdict.word, verdict.history) == ("no baseline", 0)
    assert verdict.change_percent is verdict.threshold_percent is verdict.p_value is None
    assert verdict.reason == "no baseline of this instance has this test"


@pytest.mark.parametrize("bad", [[0.1, 0.0], [-0.1], [math.nan], [math.inf], [-math.inf], []])
def test_invalid_times_and_none_are_refused(bad: list[float]) -> None:
    for now, history in ((bad, ONE_RECORD), ([0.1], [[0.1], bad]), (bad, [])):
        with pytest.raises(ValueError, match=r"must be positive and finite, got \[.*\]"):
            judge(now, history)


def close(a: Verdict, b: Verdict) -> bool:
    """True if two verdicts differ only by rounding."""
    assert a.change_percent is not None
    assert a.threshold_percent is not None
    return (a.word, a.history) == (b.word, b.history) and all(
        ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)
        for ours, theirs in (
            (a.change_percent, b.change_percent),
            (a.threshold_percent, b.threshold_percent),
            (a.p_value, b.p_value),
        )
    )


def on_the_edge(verdict: Verdict) -> bool:
    """True if rounding alone could change the word."""
    assert verdict.change_percent is not None
    assert verdict.threshold_percent is not None
    x, limit = math.log1p(verdict.change_percent / 100), math.log1p(verdict.threshold_percent / 100)
    return abs(abs(x) - limit) < 1e-9


@given(LAUNCHES, HISTORY, st.floats(0.01, 100))
def test_the_unit_of_time_changes_nothing(now: list[float], history: list[list[float]], unit: float) -> None:
    verdict = judge(now, history)
    assume(not on_the_edge(verdict))
    assert close(verdict, judge([t * unit for t in now], [[t * unit for t in run] for run in history]))


@given(LAUNCHES, HISTORY, st.randoms(use_true_random=False))
def test_the_order_of_launches_and_of_records_changes_nothing(
    now: list[float], history: list[list[float]], random: Random
) -> None:
    verdict = judge(now, history)
    assume(not on_the_edge(verdict))
    shuffled = [list(run) for run in [*history, now]]
    for run in shuffled:
        random.shuffle(run)
    *records, mixed = shuffled
    random.shuffle(records)
    assert close(verdict, judge(mixed, records))


@given(LAUNCHES, HISTORY, st.lists(st.floats(0.2, 5), min_size=2, max_size=2).map(sorted))
def test_a_slower_run_is_never_judged_better(
    now: list[float], history: list[list[float]], factors: Sequence[float]
) -> None:
    order = {"faster": 0, "ok": 1, "unclear": 1, "slower": 2}
    less, more = (judge([t * factor for t in now], history) for factor in factors)
    assume(not on_the_edge(less) and not on_the_edge(more))
    assert order[less.word] <= order[more.word]


@given(LAUNCHES, HISTORY)
def test_only_a_change_over_the_threshold_is_slower(now: list[float], history: list[list[float]]) -> None:
    verdict = judge(now, history)
    assert verdict.change_percent is not None
    assert verdict.threshold_percent is not None
    assert (verdict.word == "slower") == (verdict.change_percent > verdict.threshold_percent)
    assert verdict.threshold_percent >= 1


# Changes of a time in words: a direction instead of a sign


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (change_in_words(25), "25.0 % slower"),
        (change_in_words(-1.24), "1.2 % faster"),
        (change_in_words(-0.04), "0.0 %"),
        (change_in_words(None), ""),
        (interval_in_words(1.2, 3.4), "1.20 to 3.40 % slower"),
        (interval_in_words(-3.4, -1.2), "1.20 to 3.40 % faster"),
        (interval_in_words(-0.5, 3.4), "0.50 % faster to 3.40 % slower"),
        (in_column("1.20 % slower"), "1.20 slower"),
        (in_column("1.20 to 3.40 % slower"), "1.20 to 3.40"),
        (in_column("0.50 % faster to 3.40 % slower"), "0.50 faster to 3.40 slower"),
        (verdict_in_words("slower", 25), "slower 25.0 %"),
        (verdict_in_words("ok", -1.2), "ok, 1.2 % faster"),
        (verdict_in_words("no baseline", None), "no baseline"),
    ],
)
def test_a_change_has_its_direction_once_and_no_sign(said: str, words: str) -> None:
    assert said == words
