"""Simulation of early stopping: it stops as ranks do, and error rates and power stay the same."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fixtures.stats.stopping_rule import is_precise_enough, max_steps_in_time
from studies.window_simulation import (
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
BY_DAY = ("0.35 %, skewed", "3 %, long steps")
every_noise_at_night = pytest.mark.parametrize(
    "noise",
    [
        pytest.param(noise, id=name, marks=() if name in BY_DAY else pytest.mark.nightly)
        for name, noise in NOISES.items()
    ],
)


@every_noise
def test_the_vectorised_window_agrees_with_the_real_one(noise: Noise) -> None:
    launches = noise.draw(np.random.default_rng(8), 100)
    medians, counts = early(launches, noise.step_s)
    most = max_steps_in_time(STEPS, noise.step_s)
    for steps, median, count in zip(launches, medians, counts, strict=True):
        looks = [number for number in (8, 16) if is_precise_enough(list(np.exp(steps[:number])), PRECISION_PERCENT)]
        assert count == min([*looks, most])
        assert median == np.median(steps[:count])


@every_noise_at_night
def test_at_most_alpha_of_unchanged_tests_are_slower(noise: Noise) -> None:
    """Any slowdown against records with equal windows; more than 1 % against records with whole windows."""
    for alarms in (
        history(noise, early, early, tests=TESTS, seed=1).alarms,
        history(noise, early, whole, tests=TESTS, seed=1).failures,
        pairs(noise, early, tests=TESTS, seed=1).alarms,
    ):
        assert stats.binomtest(alarms, TESTS).proportion_ci(0.95).high <= ALPHA


@every_noise_at_night
def test_early_and_whole_windows_have_equal_error_rates(noise: Noise) -> None:
    for judged in (
        [history(noise, window, window, tests=TESTS, seed=2).alarms for window in (early, whole)],
        [pairs(noise, window, tests=TESTS, seed=3).alarms for window in (early, whole)],
    ):
        assert stats.fisher_exact(np.array([judged, [TESTS - alarms for alarms in judged]])).pvalue > 0.01


def test_a_window_that_depends_on_the_result_has_more_false_alarms() -> None:
    """Shows that the simulation can detect a wrong stopping rule."""
    noise = NOISES["0.35 %"]
    peeked, fair = (history(noise, window, whole, tests=TESTS, seed=2).alarms for window in (peeking, whole))
    assert peeked > 3 * fair


@every_noise_at_night
def test_stopping_early_finds_the_same_slowdowns(noise: Noise) -> None:
    """Long steps are fewer; this costs little if launches differ as much as steps do."""
    noise, factor = (replace(noise, launch=noise.spread), 1.06) if noise.step_s else (noise, 1)
    for late, soon in (
        [history(noise, window, window, tests=TESTS, seed=4).found_percent for window in (whole, early)],
        [pairs(noise, window, tests=TESTS, seed=5).found_percent for window in (whole, early)],
    ):
        assert soon < factor * late + 0.1


def test_a_quiet_launch_measures_eight_steps_and_a_noisy_one_twenty() -> None:
    quiet, loud = (NOISES[name].draw(np.random.default_rng(6), 1000) for name in ("0.15 % a step", "3 %"))
    assert early(quiet, 0)[1].mean() < 8.5
    assert early(loud, 0)[1].mean() > 19.9
