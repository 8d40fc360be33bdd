"""Steps and slow drift: found where they are planted, as large as they are, and seldom where there is nothing.

A night's value is drawn as in the notes on noise: 0.7 % common to all tests of the night, 0.7 % of the test's own, and
three launches of 0.5 %: about 1 % a night.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fixtures.judge.change import Change
from fixtures.judge.drift import Series, changes, fewest_nights

pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")

Logs = NDArray[np.float64]


def nights(tests: int, count: int, *, seed: int) -> Logs:
    """Shape (tests, count)."""
    random = np.random.default_rng(seed)
    common = random.normal(0, 0.007, count)
    return (
        math.log(0.1)
        + common
        + random.normal(0, 0.007, (tests, count))
        + random.normal(0, 0.005 / math.sqrt(3), (tests, count))
    )


def found(logs: Logs, *, alpha: float = 0.01) -> list[list[Change]]:
    return changes([Series(nights=tuple(range(len(test))), logs=tuple(test)) for test in logs], alpha=alpha)


# By hand: without noise


def alternating(count: int) -> Logs:
    """The least noise there can be: 0.01 % up and down."""
    logs: Logs = np.log(0.1) + 1e-4 * (-1.0) ** np.arange(count)
    return logs


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    logs = alternating(40)
    logs[25:] += math.log(1.03)
    ((step,),) = found(logs[None])
    assert (step.kind, step.at, step.first, step.last) == ("step", 25, 25, 25)
    assert step.change_percent == pytest.approx(3, abs=0.01)
    assert 2.9 < step.low_percent < step.change_percent < step.high_percent < 3.1
    assert step.p_value == pytest.approx(1 / 2000)


def test_a_faster_step_is_negative() -> None:
    logs = alternating(40)
    logs[25:] -= math.log(1.03)
    ((step,),) = found(logs[None])
    assert step.change_percent == pytest.approx(100 * (1 / 1.03 - 1), abs=0.01)


def test_some_bad_nights_are_two_steps() -> None:
    logs = alternating(60)
    logs[30:34] += 0.05
    ((up, down),) = found(logs[None])
    assert (up.at, down.at) == (30, 34)
    assert up.change_percent > 0 > down.change_percent


def test_four_steps_are_found_in_turn() -> None:
    logs = alternating(80) + 0.02 * np.repeat([0, 1, 3, 2, 5], 16)
    (steps,) = found(logs[None])
    assert [step.at for step in steps] == [16, 32, 48, 64]
    assert [round(100 * math.log1p(step.change_percent / 100)) for step in steps] == [2, 4, -2, 6]


def test_a_slope_is_one_drift_over_all_its_nights() -> None:
    ((drift,),) = found((alternating(50) + np.linspace(0, math.log(1.04), 50))[None])
    assert (drift.kind, drift.first, drift.last) == ("drift", 0, 49)
    assert drift.change_percent == pytest.approx(4, abs=0.05)
    assert drift.low_percent < 4 < drift.high_percent


@pytest.mark.parametrize(("bad", "steps"), [(1, []), (2, []), (3, [37])])
def test_bad_nights_at_the_end_are_a_step_from_the_third_on(bad: int, steps: list[int]) -> None:
    logs = alternating(40)
    logs[-bad:] += 0.05
    assert [step.at for step in found(logs[None])[0]] == steps


def test_one_bad_night_is_nothing() -> None:
    logs = alternating(40)
    logs[20] += 0.5
    assert found(logs[None]) == [[]]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 9])
def test_few_nights_and_equal_nights_are_nothing(count: int) -> None:
    assert found(np.full((1, count), math.log(0.1))) == [[]]
    assert found(nights(1, count, seed=1)) == [[]]


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.5])
def test_a_step_is_found_in_as_few_nights_as_said_and_in_no_fewer(alpha: float) -> None:
    def step(count: int) -> Logs:
        logs = alternating(count)
        logs[count // 2 :] += 0.5
        return logs[None]

    fewest = fewest_nights(alpha)
    assert [change.at for change in found(step(fewest), alpha=alpha)[0]] == [fewest // 2]
    assert found(step(fewest - 1), alpha=alpha) == [[]]


@pytest.mark.parametrize(("correlation", "marked"), [(0.0, False), (0.8, True)])
def test_nights_that_are_correlated_are_marked(correlation: float, marked: bool) -> None:
    fresh = np.random.default_rng(2).normal(0, 0.005, 60)
    logs = np.array([sum(correlation**age * fresh[night - age] for age in range(night + 1)) for night in range(60)])
    logs[30:] += 0.1
    (steps,) = found(logs[None])
    assert steps
    for step in steps:
        assert (step.correlation is not None and 0.3 < step.correlation < 1) == marked


def test_nights_without_noise_are_not_correlated() -> None:
    ((step,),) = found(np.where(np.arange(30) < 15, 0.1, 0.2)[None])
    assert step.correlation is None


def test_tests_that_ran_in_other_nights_are_looked_at_together() -> None:
    a, b = nights(2, 60, seed=3)
    a[40:] += 0.05
    every_second = tuple(range(0, 60, 2))
    of_a, of_b = changes(
        [Series(nights=tuple(range(60)), logs=tuple(a)), Series(nights=every_second, logs=tuple(b[::2]))], alpha=0.01
    )
    assert [step.at for step in of_a] == [40]
    assert of_b == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        changes([Series(nights=(0, 1), logs=(0.0, bad))], alpha=0.01)


@pytest.mark.parametrize("alpha", [0, 1, -1])
def test_a_share_of_false_alarms_is_between_none_and_all(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        changes([], alpha=alpha)


def test_the_same_nights_give_the_same_answer() -> None:
    logs = nights(3, 40, seed=5)
    logs[1, 20:] += 0.02
    assert found(logs) == found(logs)


# How often it is wrong, and what it finds


def share(cases: int, happens: Callable[[int], bool]) -> tuple[float, float]:
    """The 95 % interval of the share of cases, numbered by their seed, in which it happens."""
    interval = stats.binomtest(sum(happens(seed) for seed in range(cases)), cases).proportion_ci(0.95)
    return interval.low, interval.high


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize(("tests", "count", "cases"), [(1, 30, 300), (5, 20, 100)])
def test_flat_nights_are_called_changed_as_seldom_as_asked(tests: int, count: int, cases: int, outliers: bool) -> None:
    """Of 5 % here, for which fewer cases tell; the whole set of tests counts as one case."""

    def called(seed: int) -> bool:
        logs = nights(tests, count, seed=seed)
        random = np.random.default_rng(seed)
        logs += outliers * (random.random(logs.shape) < 0.05) * random.exponential(0.1, logs.shape)
        return any(found(logs, alpha=0.05))

    low, high = share(cases, called)
    assert low <= 0.05, f"between {low:.1%} and {high:.1%} of flat sets of nights are called changed"


def test_a_step_of_four_percent_is_found_five_nights_later() -> None:
    def seen(seed: int) -> bool:
        logs = nights(3, 35, seed=seed)
        logs[2, 30:] += math.log(1.04)
        return any(step.kind == "step" and abs(step.at - 30) <= 2 for step in found(logs)[2])

    low, _ = share(25, seen)
    assert low >= 0.75


def test_a_drift_of_four_percent_in_sixty_nights_is_found_and_called_so() -> None:
    def seen(seed: int) -> bool:
        logs = nights(1, 60, seed=seed)
        logs[0] += np.linspace(0, math.log(1.04), 60)
        return [change.kind for change in found(logs)[0]] == ["drift"]

    low, _ = share(25, seen)
    assert low >= 0.6


def test_intervals_hold_night_and_size_as_often_as_they_say() -> None:
    held_size, held_night, cases = 0, 0, 0
    for seed in range(50):
        logs = nights(1, 50, seed=seed)
        logs[0, 30:] += math.log(1.025)
        (steps,) = found(logs)
        if len(steps) == 1 and steps[0].kind == "step":
            cases += 1
            held_size += steps[0].low_percent <= 2.5 <= steps[0].high_percent
            held_night += steps[0].first <= 30 <= steps[0].last
    assert cases >= 40
    for held in (held_size, held_night):
        assert stats.binomtest(held, cases).proportion_ci(0.95).high >= 0.95, f"{held} of {cases}"
