"""The tables of docs/calibration.md on the window: what stopping it early does to false alarms and to what is found.

python -m tests.window_simulation          each kind of noise with the whole window and with one that stops early

Log step time = run + launch + step. Each test has RECORDS records and a run of LAUNCHES launches, or as many pairs of
launches. Both rules are judged without what hides small errors: the prior is the spread of all tests here, not at
least 1 %, and any change may be called slower. For false alarms runs and launches have no noise of their own either, so
that the window decides alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.judge.verdict import PRIOR_DEGREES
from fixtures.ranks.window import blocks, fitting, steps_below
from tests.calibration import rule

Logs = NDArray[np.float64]
Counts = NDArray[np.int64]

STEPS, LAUNCHES, RECORDS = 20, 3, 3
PRECISION_PERCENT = 0.25
ALPHA = 0.01
_SMALLEST = math.log(1.01)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Of the logarithm.

    spread, launch, run: standard deviations of steps, launches and runs. skewed: steps are exponential, not normal.
    correlation: of a step with the one before. outliers: share of steps that take half as long again. slow_share: of
    steps that are 1 % slower. start: by how much the first step is slower, a third of it gone at each further one.
    step_s: how long a step takes in the warm-up, in seconds.
    """

    spread: float
    launch: float = 0.0
    run: float = 0.0
    skewed: bool = False
    correlation: float = 0.0
    outliers: float = 0.0
    slow_share: float = 0.0
    start: float = 0.0
    step_s: float = 0.0

    def draw(self, rng: np.random.Generator, *shape: int) -> Logs:
        """Shape (*shape, STEPS)."""
        full = (*shape, STEPS)
        steps: Logs = rng.standard_exponential(full) if self.skewed else rng.standard_normal(full)
        for i in range(1, STEPS if self.correlation else 0):
            steps[..., i] = self.correlation * steps[..., i - 1] + math.sqrt(1 - self.correlation**2) * steps[..., i]
        steps = self.spread * steps + self.start * (2 / 3) ** np.arange(STEPS)
        steps += math.log(1.5) * (rng.random(full) < self.outliers) + 0.01 * (rng.random(full) < self.slow_share)
        return steps


NOISES = {
    "0.15 % a step": Noise(spread=0.0015),
    "0.35 %": Noise(spread=0.0035),
    "0.35 %, skewed": Noise(spread=0.0035, skewed=True),
    "0.35 %, correlated by 0.5": Noise(spread=0.0035, correlation=0.5),
    "0.35 %, 5 % of the steps half as long again": Noise(spread=0.0035, outliers=0.05),
    "0.2 %, 30 % of the steps 1 % slower": Noise(spread=0.002, slow_share=0.3),
    "0.2 %, the first steps up to 0.5 % slower": Noise(spread=0.002, start=0.005),
    "3 %": Noise(spread=0.03),
    "1.1 %, long steps": Noise(spread=0.011, step_s=0.16),
    "3 %, long steps": Noise(spread=0.03, step_s=0.16),
}

# To find a slowdown in: what launches and runs have beside it.
NOISES_OF_LAUNCHES = {title: replace(noise, launch=0.0015, run=0.002) for title, noise in NOISES.items()} | {
    "1.1 %, long steps, 0.8 % a launch, 2 % a run": Noise(spread=0.011, launch=0.008, run=0.02, step_s=0.16),
    "3 %, long steps, as much a launch and a run": Noise(spread=0.03, launch=0.03, run=0.03, step_s=0.16),
}

# Steps, shape (..., STEPS), and how long one takes in the warm-up: medians and numbers of steps, shape (...).
Window = Callable[[Logs, float], tuple[Logs, Counts]]


def whole(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """All steps."""
    return np.median(steps, axis=-1), np.full(steps.shape[:-1], STEPS)


def early(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """As many as are ``fitting``, and ``enough`` after each block, for all launches at once."""
    *looks, most = np.cumsum(blocks(fitting(STEPS, step_s)))
    medians, counts = np.median(steps[..., :most], axis=-1), np.full(steps.shape[:-1], most)
    for number in reversed(looks):
        ordered, below = np.sort(steps[..., :number], axis=-1), steps_below(number)
        enough = (ordered[..., -below] - ordered[..., below - 1]) / 2 <= math.log1p(PRECISION_PERCENT / 100)
        medians = np.where(enough, np.median(ordered, axis=-1), medians)
        counts = np.where(enough, number, counts)
    return medians, counts


def peeking(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """What must not be done: stop once steps look slower than they should, here than their true median 0."""
    medians, counts = whole(steps, step_s)
    for number in reversed(np.cumsum(blocks(STEPS))[:-1]):
        sofar = np.median(steps[..., :number], axis=-1)
        medians, counts = np.where(sofar > 0, sofar, medians), np.where(sofar > 0, number, counts)
    return medians, counts


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Shape (tests,), of the logarithm: changes without a cause, and thresholds without a smallest slowdown."""

    changes: Logs
    thresholds: Logs

    @property
    def alarms(self) -> int:
        """Tests called slower."""
        return int((self.changes > self.thresholds).sum())

    @property
    def failures(self) -> int:
        """Those that are slower by more than the 1 % worth failing for."""
        return int((self.changes > np.maximum(self.thresholds, _SMALLEST)).sum())

    @property
    def found_percent(self) -> float:
        """The smallest slowdown found 95 times in 100, with 1 % the smallest worth failing for."""
        needed = np.maximum(self.thresholds, _SMALLEST) - self.changes
        return 100 * math.expm1(float(np.quantile(needed, 0.95)))


def history(noise: Noise, run: Window, records: Window, *, tests: int, seed: int) -> Judged:
    """Tests judged against RECORDS records, whose windows may be others than the run's."""
    rng = np.random.default_rng(seed)
    level = noise.run * rng.standard_normal((tests, RECORDS + 1, 1))
    level = level + noise.launch * rng.standard_normal((tests, RECORDS + 1, LAUNCHES))
    steps = noise.draw(rng, tests, RECORDS + 1, LAUNCHES)
    before, now = records(steps[:, :-1], noise.step_s)[0], run(steps[:, -1:], noise.step_s)[0]
    medians = level + np.concatenate([before, now], axis=1)
    prior = math.sqrt(medians[:, :-1].mean(axis=-1).var(axis=-1, ddof=1).mean())
    changes, thresholds = rule(medians[None], alpha=ALPHA, tests=1, prior=prior, smallest=0)
    return Judged(changes=changes[0], thresholds=thresholds[0])


def pairs(noise: Noise, window: Window, *, tests: int, seed: int) -> Judged:
    """Tests judged on LAUNCHES pairs of launches, as ``judge_pairs`` does."""
    rng = np.random.default_rng(seed)
    level = noise.launch * rng.standard_normal((tests, LAUNCHES, 2))
    medians = level + window(noise.draw(rng, tests, LAUNCHES, 2), noise.step_s)[0]
    differences = medians[..., 0] - medians[..., 1]
    variances = differences.var(axis=-1, ddof=1)
    degrees = PRIOR_DEGREES + LAUNCHES - 1
    s = np.sqrt((PRIOR_DEGREES * variances.mean() + (LAUNCHES - 1) * variances) / degrees)
    thresholds = stats.t.isf(ALPHA, degrees) * s / math.sqrt(LAUNCHES)
    return Judged(changes=differences.mean(axis=-1), thresholds=thresholds)


def _share(alarms: int, of: int) -> str:
    interval = stats.binomtest(alarms, of).proportion_ci(0.95)
    return f"{100 * alarms / of:.2f} ({100 * interval.low:.2f} to {100 * interval.high:.2f})"


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _tables(tests: int = 40_000) -> None:
    print("\nSteps of a launch, and its median: off by, %\n")
    _row("noise", "steps measured", "whole window", "stopped early", "early less whole, on average")
    _row(*["---"] * 5)
    for title, noise in NOISES.items():
        steps = noise.draw(np.random.default_rng(1), tests)
        (medians, _), (sooner, counts) = whole(steps, noise.step_s), early(steps, noise.step_s)
        off = [f"{100 * one.std():.2f}" for one in (medians, sooner)]
        _row(title, f"{counts.mean():.1f}", *off, f"{100 * (sooner - medians).mean():+.3f}")
    print(f"\nUnchanged tests called slower, % (95 % interval), at {100 * ALPHA:.0f} %\n")
    _row("noise", "records", "records, early", "pairs", "pairs, early", "whole records, early run", "by over 1 %")
    _row(*["---"] * 7)
    for title, noise in NOISES.items():
        judged = [history(noise, window, window, tests=tests, seed=2) for window in (whole, early)]
        judged += [pairs(noise, window, tests=tests, seed=3) for window in (whole, early)]
        judged.append(history(noise, early, whole, tests=tests, seed=2))
        _row(title, *(_share(one.alarms, tests) for one in judged), _share(judged[-1].failures, tests))
    print("\nSmallest slowdown of a test found 95 times in 100, %\n")
    _row("noise", "records", "records, early", "pairs", "pairs, early")
    _row(*["---"] * 5)
    for title, noise in NOISES_OF_LAUNCHES.items():
        judged = [history(noise, w, w, tests=tests, seed=4) for w in (whole, early)]
        judged += [pairs(noise, w, tests=tests, seed=5) for w in (whole, early)]
        _row(title, *(f"{one.found_percent:.2f}" for one in judged))


if __name__ == "__main__":
    _tables()
