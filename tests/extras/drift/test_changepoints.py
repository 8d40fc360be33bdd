"""Changepoints: planted steps and drifts are found with their night and size; false alarms are rare.

The simulated noise of a night is 0.7 % common to all tests, 0.7 % of each test, and 0.5 % of each of three launches:
about 1 % in total.
"""

import math

import numpy as np
import pytest

from fixtures.extras.drift.changepoints import Series, find_changes, min_nights
from tests.extras.drift.simulated_nights import Logs, changes_in, nights

pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")

# Almost without noise


def alternating(count: int) -> Logs:
    """Nights with a minimal noise: 0.01 % up and down."""
    logs: Logs = np.log(0.1) + 1e-4 * (-1.0) ** np.arange(count)
    return logs


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    logs = alternating(40)
    logs[25:] += math.log(1.03)
    ((step,),) = changes_in(logs[None])
    assert (step.kind, step.at, step.first, step.last) == ("step", 25, 25, 25)
    assert step.change_percent == pytest.approx(3, abs=0.01)
    assert 2.9 < step.low_percent < step.change_percent < step.high_percent < 3.1
    assert step.p_value == pytest.approx(1 / 2000)
    ((faster,),) = changes_in(-logs[None])
    assert faster.change_percent == pytest.approx(100 * (1 / 1.03 - 1), abs=0.01)


def test_a_few_bad_nights_are_two_steps() -> None:
    logs = alternating(60)
    logs[30:34] += 0.05
    ((up, down),) = changes_in(logs[None])
    assert (up.at, down.at) == (30, 34)
    assert up.change_percent > 0 > down.change_percent


def test_four_steps_are_found_in_order() -> None:
    logs = alternating(80) + 0.02 * np.repeat([0, 1, 3, 2, 5], 16)
    (steps,) = changes_in(logs[None])
    assert [step.at for step in steps] == [16, 32, 48, 64]
    assert [round(100 * math.log1p(step.change_percent / 100)) for step in steps] == [2, 4, -2, 6]


def test_a_slope_is_one_drift_over_all_nights() -> None:
    ((drift,),) = changes_in((alternating(50) + np.linspace(0, math.log(1.04), 50))[None])
    assert (drift.kind, drift.first, drift.last) == ("drift", 0, 49)
    assert drift.change_percent == pytest.approx(4, abs=0.05)
    assert drift.low_percent < 4 < drift.high_percent


@pytest.mark.parametrize(("bad", "steps"), [(1, []), (2, []), (3, [37])])
def test_bad_nights_at_the_end_are_a_step_from_the_third_on(bad: int, steps: list[int]) -> None:
    logs = alternating(40)
    logs[-bad:] += 0.05
    assert [step.at for step in changes_in(logs[None])[0]] == steps
    in_the_middle = alternating(40)
    in_the_middle[20] += 0.5  # one bad night is no change
    assert changes_in(in_the_middle[None]) == [[]]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 9])
def test_few_nights_and_equal_nights_have_no_change(count: int) -> None:
    assert changes_in(np.full((1, count), math.log(0.1))) == [[]]
    assert changes_in(nights(1, count, seed=1)) == [[]]


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.5])
def test_a_step_is_found_in_min_nights_and_not_in_fewer(alpha: float) -> None:
    def step(count: int) -> Logs:
        logs = alternating(count)
        logs[count // 2 :] += 0.5
        return logs[None]

    fewest = min_nights(alpha)
    assert [change.at for change in changes_in(step(fewest), alpha=alpha)[0]] == [fewest // 2]
    assert changes_in(step(fewest - 1), alpha=alpha) == [[]]


@pytest.mark.parametrize(("correlation", "marked"), [(0.0, False), (0.8, True)])
def test_autocorrelated_nights_are_marked(correlation: float, marked: bool) -> None:
    fresh = np.random.default_rng(2).normal(0, 0.005, 60)
    logs = np.array([sum(correlation**age * fresh[night - age] for age in range(night + 1)) for night in range(60)])
    logs[30:] += 0.1
    (steps,) = changes_in(logs[None])
    assert steps
    for step in steps:
        assert (step.correlation is not None and 0.3 < step.correlation < 1) == marked
    ((step,),) = changes_in(np.where(np.arange(30) < 15, 0.1, 0.2)[None])  # without noise
    assert step.correlation is None


def test_tests_measured_in_different_nights_are_judged_together() -> None:
    a, b = nights(2, 60, seed=3)
    a[40:] += 0.05
    every_second = tuple(range(0, 60, 2))
    changes_of_a, changes_of_b = find_changes(
        [Series(nights=tuple(range(60)), logs=tuple(a)), Series(nights=every_second, logs=tuple(b[::2]))], alpha=0.01
    )
    assert [step.at for step in changes_of_a] == [40]
    assert changes_of_b == []


def test_values_that_are_not_finite_and_an_alpha_outside_of_0_to_1_are_refused() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="must be finite"):
            find_changes([Series(nights=(0, 1), logs=(0.0, bad))], alpha=0.01)
    for alpha in (0, 1, -1):
        with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
            find_changes([], alpha=alpha)
