"""The rule on pairs of launches under two builds."""

import math
import random

import pytest
from scipy import stats

from fixtures.judge.pairs import Prior, judge_pairs, prior_of


def test_the_threshold_is_the_formulas() -> None:
    differences = [0.02, 0.03, 0.01]
    s = math.sqrt((4 * 0.01**2 + 2 * 0.01**2) / 6 / 3)
    verdict, (low, high) = judge_pairs(differences, prior=Prior(spread=0.01, known=True), tests=10, looks=8)
    assert verdict.threshold_percent == pytest.approx(100 * math.expm1(stats.t.ppf(1 - 0.01 / 80, 6) * s))
    assert low == pytest.approx(100 * math.expm1(0.02 - stats.t.ppf(0.975, 6) * s))
    assert high == pytest.approx(100 * math.expm1(0.02 + stats.t.ppf(0.975, 6) * s))


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ([0.3, 0.31, 0.29], "slower"),
        ([-0.3, -0.31, -0.29], "faster"),
        ([0.0] * 20, "ok"),
        ([0.02, 0.0, 0.01], "undecided"),
        ([0.02], "undecided"),
    ],
)
def test_a_change_has_a_word(differences: list[float], word: str) -> None:
    assert judge_pairs(differences)[0].word == word


def test_a_change_that_is_sure_but_small_does_not_fail() -> None:
    verdict, _ = judge_pairs([0.005] * 30, prior=Prior(spread=0.0005, known=True))
    assert verdict.word == "ok"


def test_sides_swapped_give_the_opposite() -> None:
    verdict, (low, high) = judge_pairs([0.02, 0.03, 0.05])
    other, (other_low, other_high) = judge_pairs([-0.02, -0.03, -0.05])
    logs = [math.log1p((side.change_percent or 0) / 100) for side in (verdict, other)]
    assert logs == pytest.approx([0.1 / 3, -0.1 / 3])
    assert (math.log1p(low / 100), math.log1p(high / 100)) == pytest.approx(
        (-math.log1p(other_high / 100), -math.log1p(other_low / 100))
    )


def test_no_pair_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pair"):
        judge_pairs([])


def test_the_prior_is_the_spread_of_all_pairs_once_those_of_earlier_tests_are_enough() -> None:
    pair = [0.001, -0.001]
    assert prior_of([pair] * 6, pair) == Prior(spread=0.01, known=False)
    enough, known = prior_of([pair] * 7, pair), prior_of([pair] * 8, pair)
    assert [enough.known, known.known] == [False, True]
    assert [enough.spread, known.spread] == pytest.approx([math.sqrt(2e-6)] * 2)


def test_a_launch_that_was_disturbed_does_not_hide_the_tests_after_it() -> None:
    """Pairs of two H200s through host memory, of the same code and of a kernel of 900 us (0.94 %) more in each step."""
    equal = [[-0.0040, 0.0033, 0.0033], [-0.0056, 0.0006, 0.0021], [0.1136, -0.0001, 0.0027], [0.0014, 0.0009, 0.0006]]
    equal += [[0.0017, 0.0029, 0.0010], [-0.0005, -0.0013, 0.0005]]
    planted = [0.0094, 0.0081, 0.0098]
    prior = prior_of(equal, planted)
    assert prior.known
    assert prior.spread < 0.004 < prior_of(equal[:3], equal[2]).spread
    assert judge_pairs(planted, prior=prior, tests=12, min_slowdown_percent=0.5)[0].word == "slower"


def test_where_launches_are_disturbed_often_that_is_what_the_machine_is_like() -> None:
    quiet, disturbed = [0.001, -0.001, 0.0], [0.1, -0.001, 0.0]
    assert prior_of([*[quiet] * 20, disturbed], quiet).spread == pytest.approx(0.001, rel=0.1)
    assert prior_of([*[quiet] * 20, disturbed, disturbed], quiet).spread > 0.01


@pytest.mark.parametrize(("times", "known"), [(1.2, True), (1.4, False)])
def test_a_test_that_is_louder_than_the_earlier_ones_must_be_sure_by_itself(times: float, known: bool) -> None:
    """Its variance against theirs, of 2 and 8 degrees of freedom: beyond the 75 % quantile of F, 1.66."""
    pair = [0.001, -0.001]
    own = [0.001 * math.sqrt(2) * times * z for z in (-1, 0, 1)]
    assert prior_of([pair] * 8, own).known == known


def test_a_first_test_that_is_noisy_is_not_taken_for_quiet() -> None:
    assert prior_of([], [0.1, -0.1]).spread == pytest.approx(math.sqrt(0.02))
    assert prior_of([], [0.1]).spread == 0.01


def test_until_the_spread_is_known_pairs_must_be_sure_by_themselves() -> None:
    differences = [0.08, 0.03, 0.07]
    s = stats.sem(differences)
    alone, (low, _) = judge_pairs(differences, looks=8)
    assert alone.word == "undecided"
    assert alone.threshold_percent == pytest.approx(100 * math.expm1(stats.t.ppf(1 - 0.01 / 8, 2) * s))
    assert alone.p_value == pytest.approx(stats.t.sf(0.06 / s, 2))
    assert low == pytest.approx(100 * math.expm1(0.06 - stats.t.ppf(0.975, 2) * s))
    assert judge_pairs(differences, prior=Prior(known=True), looks=8)[0].word == "slower"


def test_two_pairs_that_say_nothing_have_a_threshold_that_can_be_written() -> None:
    verdict, (low, high) = judge_pairs([0.5, -0.5], looks=8, false_alarms_percent=1e-6)
    assert verdict.word == "undecided"
    assert verdict.threshold_percent == pytest.approx(999_900)
    assert -100 < low < 0 < high < 1e7


def test_one_pair_decides_only_where_its_spread_is_known() -> None:
    assert judge_pairs([0.3])[0].word == "undecided"
    assert judge_pairs([0.3], prior=Prior(known=True))[0].word == "slower"


def run_of(tests: int, spreads: list[float], change: float, random_: random.Random) -> list[str]:
    """The words of a run: every test changed by ``change``, pairs added while it is undecided, up to ten."""
    earlier: list[list[float]] = []
    words: list[str] = []
    for number in range(tests):
        drawn = [random_.gauss(change, spreads[number % len(spreads)]) for _ in range(10)]
        for k in range(3, 11):
            prior = prior_of(earlier, drawn[:k])
            word = judge_pairs(drawn[:k], prior=prior, tests=tests, looks=8)[0].word
            if word != "undecided":
                break
        earlier.append(drawn[:k])
        words.append(word)
    return words


@pytest.mark.parametrize("spreads", [[0.002], [0.007], [0.001, 0.003, 0.01], [0.02]], ids=str)
def test_an_unchanged_run_of_forty_tests_is_red_in_at_most_one_of_a_hundred(spreads: list[float]) -> None:
    random_ = random.Random(1)
    red = sum("slower" in run_of(40, spreads, 0.0, random_) for _ in range(100))
    assert stats.binomtest(red, 100, 0.01, alternative="greater").pvalue > 0.01, f"{red} of 100 runs were red"


def test_a_slowdown_of_two_percent_is_found_where_pairs_agree() -> None:
    random_ = random.Random(2)
    words = [word for _ in range(10) for word in run_of(40, [0.003], math.log(1.02), random_)]
    assert words.count("slower") / len(words) >= 0.95
