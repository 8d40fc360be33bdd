"""The simulation of early stopping: it stops as ranks do, and neither adds false alarms nor misses what was found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fixtures.ranks.window import enough, fitting
from tests.window_simulation import (
    ALPHA,
    NOISES,
    PRECISION_PERCENT,
    STEPS,
    Noise,
    early,
    history,
    pairs,
    peeking,
    whole,
)

TESTS = 10_000
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)


@every_noise
def test_the_simulated_window_is_the_real_one(noise: Noise) -> None:
    launches = noise.draw(np.random.default_rng(8), 100)
    medians, counts = early(launches, noise.step_s)
    most = fitting(STEPS, noise.step_s)
    for steps, median, count in zip(launches, medians, counts, strict=True):
        looks = [number for number in (8, 16) if enough(list(np.exp(steps[:number])), PRECISION_PERCENT)]
        assert count == min([*looks, most])
        assert median == np.median(steps[:count])


@every_noise
def test_no_more_is_called_slower_than_may_be(noise: Noise) -> None:
    """Against records alike whatever the change; against those of whole windows by more than 1 %."""
    for alarms in (
        history(noise, early, early, tests=TESTS, seed=1).alarms,
        history(noise, early, whole, tests=TESTS, seed=1).failures,
        pairs(noise, early, tests=TESTS, seed=1).alarms,
    ):
        assert stats.binomtest(alarms, TESTS).proportion_ci(0.95).high <= ALPHA


@every_noise
def test_early_and_whole_windows_are_wrong_equally_often(noise: Noise) -> None:
    for judged in (
        [history(noise, window, window, tests=TESTS, seed=2).alarms for window in (early, whole)],
        [pairs(noise, window, tests=TESTS, seed=3).alarms for window in (early, whole)],
    ):
        assert stats.fisher_exact(np.array([judged, [TESTS - alarms for alarms in judged]])).pvalue > 0.01


def test_a_window_that_looks_at_the_answer_is_wrong_more_often() -> None:
    """So the simulation can tell."""
    noise = NOISES["0.35 %"]
    peeked, fair = (history(noise, window, whole, tests=TESTS, seed=2).alarms for window in (peeking, whole))
    assert peeked > 3 * fair


@every_noise
def test_what_is_found_is_found_early_too(noise: Noise) -> None:
    """Where steps are long, there are fewer of them; it costs little where launches differ as much as steps do."""
    noise, factor = (replace(noise, launch=noise.spread), 1.06) if noise.step_s else (noise, 1)
    for late, soon in (
        [history(noise, window, window, tests=TESTS, seed=4).found_percent for window in (whole, early)],
        [pairs(noise, window, tests=TESTS, seed=5).found_percent for window in (whole, early)],
    ):
        assert soon < factor * late + 0.1


def test_a_quiet_launch_measures_eight_steps_and_a_loud_one_twenty() -> None:
    quiet, loud = (NOISES[name].draw(np.random.default_rng(6), 1000) for name in ("0.15 % a step", "3 %"))
    assert early(quiet, 0)[1].mean() < 8.5
    assert early(loud, 0)[1].mean() > 19.9
