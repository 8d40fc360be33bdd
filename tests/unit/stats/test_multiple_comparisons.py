"""Comparison with the best: examples, and the error rate for equally fast configs."""

import numpy as np
import pytest

from fixtures.stats.multiple_comparisons import candidates_for_best
from fixtures.stats.thresholds import BEST_LEVEL

QUIET = [(0.1000 + i / 1e3, 0.1001 + i / 1e3, 0.1002 + i / 1e3) for i in range(5)]
# As on one H200 in autocast: CUDA graphs of 18 ms, and eager steps of 60 to 80 ms that the host limits.
GRAPHS = [(0.01801, 0.01802), (0.01805, 0.01803), (0.01967, 0.01979)]
EAGER = [(0.059 + i / 500, (0.059 + i / 500) * (1.1 if i % 2 else 0.8)) for i in range(10)]


@pytest.mark.parametrize(
    ("times", "candidates"),
    [
        ([(0.1100, 0.1101, 0.1102), (0.1000, 0.1001, 0.1002), (0.1200, 0.1201, 0.1202)], [1]),
        ([(0.101, 0.099, 0.103), (0.099, 0.102, 0.100), (0.2, 0.21, 0.19)], [1, 0]),  # within the noise
        ([(0.1010, 0.1515, 0.2021), (0.1000, 0.1500, 0.2000)], [1]),  # the effect of the rank set cancels
        ([*QUIET, (0.1, 0.2, 0.4)], [0, 5]),  # noise hides no difference of quiet ones
        ([*QUIET, (0.3, 0.4, 0.5)], [0]),
        ([*GRAPHS, *EAGER], [0, 1]),
        ([(0.3,), (0.1,), (0.2,)], [1, 2, 0]),  # one launch decides nothing
        ([(0.3, 0.3), (0.1,)], [1, 0]),
        ([(0.1, 0.2)], [0]),
        ([(0.1, 0.2), (0.1, 0.2)], [0, 1]),
    ],
)
def test_what_may_be_the_best_is_named_the_fastest_first(times: list[tuple[float, ...]], candidates: list[int]) -> None:
    assert candidates_for_best(times) == candidates


@pytest.mark.parametrize("times", [(), (0.0, 1.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_invalid_times_are_refused(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be positive and finite"):
        candidates_for_best([times, (0.1, 0.1)])


# Noise of each config relative to the quietest one.
NOISE = {
    "2 alike": [1, 1],
    "3 alike": [1, 1, 1],
    "10 alike": [1] * 10,
    "1 of 2 noisy": [1, 10],
    "1 of 3 noisy": [1, 1, 10],
    "1 of 10 noisy": [1] * 9 + [10],
    "half of 10 noisy": [1] * 5 + [10] * 5,
    "1 of 10 quiet": [1] + [10] * 9,
}
RUNS = 1000
BY_DAY = [("3 alike", 2), ("1 of 3 noisy", 3)]


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        pytest.param(name, launches, marks=() if (name, launches) in BY_DAY else pytest.mark.nightly)
        for launches in (2, 3)
        for name in NOISE
    ],
)
def test_equally_fast_configs_have_a_single_best_at_most_at_the_stated_rate(name: str, launches: int) -> None:
    spreads = NOISE[name]
    random = np.random.default_rng(19)
    noise = 0.02 * random.standard_normal((RUNS, len(spreads), launches)) * np.array(spreads)[:, None]
    rank_set = 0.1 * random.standard_normal((RUNS, 1, launches))
    called = sum(len(candidates_for_best(run)) == 1 for run in np.exp(noise + rank_set).tolist())
    # BEST_LEVEL plus three standard errors.
    assert called / RUNS <= BEST_LEVEL + 3 * (BEST_LEVEL * (1 - BEST_LEVEL) / RUNS) ** 0.5


@pytest.mark.parametrize(("ahead", "least"), [(0.001, 0.0), (0.01, 0.8)])
def test_the_best_of_ten_is_found_when_clearly_ahead_and_rarely_excluded(ahead: float, least: float) -> None:
    random = np.random.default_rng(19)
    noise = 0.002 * random.standard_normal((500, 10, 3))
    noise[:, 0] -= ahead
    groups = [candidates_for_best(run) for run in np.exp(noise).tolist()]
    assert sum(group == [0] for group in groups) / 500 >= least
    assert sum(0 not in group for group in groups) / 500 <= BEST_LEVEL
