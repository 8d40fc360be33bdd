"""Error rates and power of the moderated paired t-test, from simulated runs."""

import math
import random

import pytest
from scipy import stats

from fixtures.stats.paired_test import estimate_prior, judge_pairs


def run_of(tests: int, spreads: list[float], change: float, random_: random.Random) -> list[str]:
    """Verdict words of a run in which every test changes by ``change``; up to ten pairs while a test is undecided."""
    earlier: list[list[float]] = []
    words: list[str] = []
    for number in range(tests):
        drawn = [random_.gauss(change, spreads[number % len(spreads)]) for _ in range(10)]
        for k in range(3, 11):
            prior = estimate_prior(earlier, drawn[:k])
            word = judge_pairs(drawn[:k], prior=prior, tests=tests, looks=8)[0].word
            if word != "unclear":
                break
        earlier.append(drawn[:k])
        words.append(word)
    return words


@pytest.mark.parametrize(
    "spreads",
    [
        [0.001, 0.003, 0.01],
        *(pytest.param(spread, marks=pytest.mark.nightly) for spread in ([0.002], [0.007], [0.02])),
    ],
    ids=str,
)
def test_an_unchanged_run_of_forty_tests_fails_at_most_once_in_a_hundred(spreads: list[float]) -> None:
    random_ = random.Random(1)
    red = sum("slower" in run_of(40, spreads, 0.0, random_) for _ in range(100))
    assert stats.binomtest(red, 100, 0.01, alternative="greater").pvalue > 0.01, f"{red} of 100 runs were red"


def test_a_slowdown_of_two_percent_is_found_if_pairs_agree() -> None:
    random_ = random.Random(2)
    words = [word for _ in range(10) for word in run_of(40, [0.003], math.log(1.02), random_)]
    assert words.count("slower") / len(words) >= 0.95
