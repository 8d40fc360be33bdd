"""Simulated nights, and the changes found in them."""

import math

import numpy as np
from numpy.typing import NDArray

from fixtures.extras.drift.change_estimates import Change
from fixtures.extras.drift.changepoints import Series, find_changes

# ln of step times, shape (tests, nights).
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


def changes_in(logs: Logs, *, alpha: float = 0.01) -> list[list[Change]]:
    return find_changes([Series(nights=tuple(range(len(test))), logs=tuple(test)) for test in logs], alpha=alpha)
