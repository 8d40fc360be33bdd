"""False alarms and power of the changepoint detection, from simulated nights."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fixtures.extras.drift import changepoints
from tests.extras.drift.simulated_nights import changes_in, nights

pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")

# Error rates and power


@pytest.fixture(autouse=True)
def fewer_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A permutation test has a share alpha of false alarms for any number of permutations; with fewer it finds less.

    They are enough for an alpha of 1 %: p is at least 1 / (permutations + 1).
    """
    monkeypatch.setattr(changepoints, "PERMUTATIONS", 399)


def share(cases: int, happens: Callable[[int], bool]) -> tuple[float, float]:
    """95 % confidence interval of the share of cases (one for each seed) in which it happens."""
    interval = stats.binomtest(sum(happens(seed) for seed in range(cases)), cases).proportion_ci(0.95)
    return interval.low, interval.high


@pytest.mark.parametrize(
    ("tests", "count", "cases", "outliers"),
    [
        (5, 20, 100, True),
        *(pytest.param(*more, marks=pytest.mark.nightly) for more in ((5, 20, 100, False), (1, 30, 300, False))),
        pytest.param(1, 30, 300, True, marks=pytest.mark.nightly),
    ],
)
def test_the_share_of_false_alarms_is_at_most_alpha(
    tests: int, count: int, cases: int, outliers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At alpha = 5 %, which needs fewer cases and permutations; the whole set of tests counts as one case."""
    monkeypatch.setattr(changepoints, "PERMUTATIONS", 99)

    def called(seed: int) -> bool:
        logs = nights(tests, count, seed=seed)
        random = np.random.default_rng(seed)
        logs += outliers * (random.random(logs.shape) < 0.05) * random.exponential(0.1, logs.shape)
        return any(changes_in(logs, alpha=0.05))

    low, high = share(cases, called)
    assert low <= 0.05, f"between {low:.1%} and {high:.1%} of flat sets of nights are called changed"


def test_a_step_of_four_percent_is_found_after_five_nights() -> None:
    def seen(seed: int) -> bool:
        logs = nights(3, 35, seed=seed)
        logs[2, 30:] += math.log(1.04)
        return any(step.kind == "step" and abs(step.at - 30) <= 2 for step in changes_in(logs)[2])

    low, _ = share(25, seen)
    assert low >= 0.75


def test_a_drift_of_four_percent_in_sixty_nights_is_found_as_drift() -> None:
    def seen(seed: int) -> bool:
        logs = nights(1, 60, seed=seed)
        logs[0] += np.linspace(0, math.log(1.04), 60)
        return [change.kind for change in changes_in(logs)[0]] == ["drift"]

    low, _ = share(25, seen)
    assert low >= 0.6


def test_confidence_intervals_of_night_and_size_have_their_coverage() -> None:
    held_size, held_night, cases = 0, 0, 0
    for seed in range(50):
        logs = nights(1, 50, seed=seed)
        logs[0, 30:] += math.log(1.025)
        (steps,) = changes_in(logs)
        if len(steps) == 1 and steps[0].kind == "step":
            cases += 1
            held_size += steps[0].low_percent <= 2.5 <= steps[0].high_percent
            held_night += steps[0].first <= 30 <= steps[0].last
    assert cases >= 40
    for held in (held_size, held_night):
        assert stats.binomtest(held, cases).proportion_ci(0.95).high >= 0.95, f"{held} of {cases}"
