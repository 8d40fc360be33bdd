"""Moderated paired t-test: formula, prior, words, and error rates by simulation."""

import math

import pytest
from scipy import stats

from fixtures.stats.paired_test import PairPrior, estimate_prior, judge_pairs


def test_the_threshold_follows_the_formula() -> None:
    differences = [0.02, 0.03, 0.01]
    s = math.sqrt((4 * 0.01**2 + 2 * 0.01**2) / 6 / 3)
    verdict, (low, high) = judge_pairs(differences, prior=PairPrior(spread=0.01, known=True), tests=10, looks=8)
    assert verdict.threshold_percent == pytest.approx(100 * math.expm1(stats.t.ppf(1 - 0.01 / 80, 6) * s))
    assert low == pytest.approx(100 * math.expm1(0.02 - stats.t.ppf(0.975, 6) * s))
    assert high == pytest.approx(100 * math.expm1(0.02 + stats.t.ppf(0.975, 6) * s))


@pytest.mark.parametrize(
    ("differences", "prior", "word"),
    [
        ([0.3, 0.31, 0.29], PairPrior(), "slower"),
        ([-0.3, -0.31, -0.29], PairPrior(), "faster"),
        ([0.0] * 20, PairPrior(), "ok"),
        ([0.005] * 30, PairPrior(spread=0.0005, known=True), "ok"),  # significant but small
        ([0.02, 0.0, 0.01], PairPrior(), "unclear"),
        ([0.02], PairPrior(), "unclear"),
        ([0.3], PairPrior(), "unclear"),
        ([0.3], PairPrior(known=True), "slower"),
    ],
)
def test_each_kind_of_change_has_its_word(differences: list[float], prior: PairPrior, word: str) -> None:
    assert judge_pairs(differences, prior=prior)[0].word == word
    with pytest.raises(ValueError, match="no pair"):
        judge_pairs([])


def test_the_prior_is_the_pooled_spread_once_earlier_tests_have_enough_pairs() -> None:
    pair = [0.001, -0.001]
    assert estimate_prior([pair] * 6, pair) == PairPrior(spread=0.01, known=False)
    enough, known = estimate_prior([pair] * 7, pair), estimate_prior([pair] * 8, pair)
    assert [enough.known, known.known] == [False, True]
    assert [enough.spread, known.spread] == pytest.approx([math.sqrt(2e-6)] * 2)
    assert estimate_prior([], [0.1, -0.1]).spread == pytest.approx(math.sqrt(0.02))
    assert estimate_prior([], [0.1]).spread == 0.01


def test_one_disturbed_launch_does_not_hide_slowdowns_of_later_tests() -> None:
    """Measured on two H200s through host memory: A/A pairs, and pairs with 900 us (0.94 %) more in each step."""
    equal = [[-0.0040, 0.0033, 0.0033], [-0.0056, 0.0006, 0.0021], [0.1136, -0.0001, 0.0027], [0.0014, 0.0009, 0.0006]]
    equal += [[0.0017, 0.0029, 0.0010], [-0.0005, -0.0013, 0.0005]]
    planted = [0.0094, 0.0081, 0.0098]
    prior = estimate_prior(equal, planted)
    assert prior.known
    assert prior.spread < 0.004 < estimate_prior(equal[:3], equal[2]).spread
    assert judge_pairs(planted, prior=prior, tests=12, min_slowdown_percent=0.5)[0].word == "slower"


def test_frequent_disturbances_count_as_noise_of_the_machine() -> None:
    quiet, disturbed = [0.001, -0.001, 0.0], [0.1, -0.001, 0.0]
    assert estimate_prior([*[quiet] * 20, disturbed], quiet).spread == pytest.approx(0.001, rel=0.1)
    assert estimate_prior([*[quiet] * 20, disturbed, disturbed], quiet).spread > 0.01


@pytest.mark.parametrize(("times", "known"), [(1.2, True), (1.4, False)])
def test_a_test_noisier_than_the_earlier_ones_is_judged_without_the_prior_too(times: float, known: bool) -> None:
    """The 75 % quantile of F for 2 and 8 degrees of freedom is 1.66."""
    pair = [0.001, -0.001]
    own = [0.001 * math.sqrt(2) * times * z for z in (-1, 0, 1)]
    assert estimate_prior([pair] * 8, own).known == known


def test_while_the_prior_is_unknown_the_pairs_must_be_significant_without_it() -> None:
    differences = [0.08, 0.03, 0.07]
    s = stats.sem(differences)
    alone, (low, _) = judge_pairs(differences, looks=8)
    assert alone.word == "unclear"
    assert alone.threshold_percent == pytest.approx(100 * math.expm1(stats.t.ppf(1 - 0.01 / 8, 2) * s))
    assert alone.p_value == pytest.approx(stats.t.sf(0.06 / s, 2))
    assert low == pytest.approx(100 * math.expm1(0.06 - stats.t.ppf(0.975, 2) * s))
    assert judge_pairs(differences, prior=PairPrior(known=True), looks=8)[0].word == "slower"


def test_the_threshold_of_two_contradicting_pairs_is_bounded() -> None:
    verdict, (low, high) = judge_pairs([0.5, -0.5], looks=8, false_alarms_percent=1e-6)
    assert verdict.word == "unclear"
    assert verdict.threshold_percent == pytest.approx(999_900)
    assert -100 < low < 0 < high < 1e7
