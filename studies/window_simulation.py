"""Simulation of the stopping rule, for docs/studies/accuracy.md: false alarms and power.

python -m studies.window_simulation          each kind of noise with the whole window and with one that stops early

Log step time = run + launch + step. A test has RECORDS records and a run of LAUNCHES launches, or LAUNCHES pairs of
launches. Two simplifications make small errors visible: the prior is the spread of all simulated tests, without the
minimum of 1 %, and there is no smallest slowdown worth failing for. For false alarms, runs and launches have no noise
of their own, so only the window matters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.stats.stopping_rule import block_sizes, interval_rank, max_steps_in_time
from studies.calibration import Priors, rule

Logs = NDArray[np.float64]
Counts = NDArray[np.int64]

STEPS, LAUNCHES, RECORDS = 20, 3, 3
# Degrees of freedom of the variance over all tests, for one pair.
PRIOR_DEGREES = 4
PRECISION_PERCENT = 0.25
ALPHA = 0.01
_SMALLEST = math.log(1.01)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of ln(time).

    spread, launch, run: standard deviations of steps, launches and runs.
    skewed: steps are exponentially distributed, not normally.
    correlation: lag-1 autocorrelation of the steps.
    outliers: share of steps that take half as long again.
    slow_share: share of steps that are 1 % slower.
    start: additional time of the first step; each further step has a third less of it.
    step_s: step time in the warm-up, in seconds.
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
        """Draw steps of shape (*shape, STEPS)."""
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

# For the smallest slowdown found: also with noise of launches and runs.
NOISES_OF_LAUNCHES = {title: replace(noise, launch=0.0015, run=0.002) for title, noise in NOISES.items()} | {
    "1.1 %, long steps, 0.8 % a launch, 2 % a run": Noise(spread=0.011, launch=0.008, run=0.02, step_s=0.16),
    "3 %, long steps, as much a launch and a run": Noise(spread=0.03, launch=0.03, run=0.03, step_s=0.16),
}

# From steps of shape (..., STEPS) and the step time in the warm-up to medians and numbers of steps, shape (...).
Window = Callable[[Logs, float], tuple[Logs, Counts]]


def whole(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """Measure all steps."""
    return np.median(steps, axis=-1), np.full(steps.shape[:-1], STEPS)


def early(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """Apply ``max_steps_in_time`` and ``is_precise_enough`` to all launches at once."""
    *looks, most = np.cumsum(block_sizes(max_steps_in_time(STEPS, step_s)))
    medians, counts = np.median(steps[..., :most], axis=-1), np.full(steps.shape[:-1], most)
    for number in reversed(looks):
        ordered, rank = np.sort(steps[..., :number], axis=-1), interval_rank(number)
        enough = (ordered[..., -rank] - ordered[..., rank - 1]) / 2 <= math.log1p(PRECISION_PERCENT / 100)
        medians = np.where(enough, np.median(ordered, axis=-1), medians)
        counts = np.where(enough, number, counts)
    return medians, counts


def peeking(steps: Logs, step_s: float) -> tuple[Logs, Counts]:
    """Wrong stopping rule, for comparison: stop as soon as the median looks slower than the true median 0."""
    medians, counts = whole(steps, step_s)
    for number in reversed(np.cumsum(block_sizes(STEPS))[:-1]):
        current = np.median(steps[..., :number], axis=-1)
        medians, counts = np.where(current > 0, current, medians), np.where(current > 0, number, counts)
    return medians, counts


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Changes of unchanged tests and their thresholds without a smallest slowdown, in ln(time), shape (tests,)."""

    changes: Logs
    thresholds: Logs

    @property
    def alarms(self) -> int:
        """Number of tests called slower."""
        return int((self.changes > self.thresholds).sum())

    @property
    def failures(self) -> int:
        """Number of tests called slower by more than the 1 % worth failing for."""
        return int((self.changes > np.maximum(self.thresholds, _SMALLEST)).sum())

    @property
    def found_percent(self) -> float:
        """Smallest slowdown found 95 times in 100, if 1 % is the smallest worth failing for."""
        needed = np.maximum(self.thresholds, _SMALLEST) - self.changes
        return 100 * math.expm1(float(np.quantile(needed, 0.95)))


def history(noise: Noise, run: Window, records: Window, *, tests: int, seed: int) -> Judged:
    """Judge tests against RECORDS records. The windows of the run and of the records may differ."""
    rng = np.random.default_rng(seed)
    level = noise.run * rng.standard_normal((tests, RECORDS + 1, 1))
    level = level + noise.launch * rng.standard_normal((tests, RECORDS + 1, LAUNCHES))
    steps = noise.draw(rng, tests, RECORDS + 1, LAUNCHES)
    before, now = records(steps[:, :-1], noise.step_s)[0], run(steps[:, -1:], noise.step_s)[0]
    medians = level + np.concatenate([before, now], axis=1)
    prior = Priors(variance=float(medians[:, :-1].mean(axis=-1).var(axis=-1, ddof=1).mean()), most=math.inf, least=0)
    changes, thresholds = rule(medians[None], alpha=ALPHA, tests=1, prior=prior, smallest=0)
    return Judged(changes=changes[0], thresholds=thresholds[0])


def pairs(noise: Noise, window: Window, *, tests: int, seed: int) -> Judged:
    """Judge tests on LAUNCHES pairs of launches, as ``judge_pairs`` does with a known prior."""
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
    print("\nSteps of a launch, and standard error of its median, %\n")
    _row("noise", "steps measured", "whole window", "stopped early", "early less whole, on average")
    _row(*["---"] * 5)
    for title, noise in NOISES.items():
        steps = noise.draw(np.random.default_rng(1), tests)
        (medians, _), (sooner, counts) = whole(steps, noise.step_s), early(steps, noise.step_s)
        errors = [f"{100 * estimates.std():.2f}" for estimates in (medians, sooner)]
        _row(title, f"{counts.mean():.1f}", *errors, f"{100 * (sooner - medians).mean():+.3f}")
    print(f"\nUnchanged tests called slower, % (95 % interval), at {100 * ALPHA:.0f} %\n")
    _row("noise", "records", "records, early", "pairs", "pairs, early", "whole records, early run", "by over 1 %")
    _row(*["---"] * 7)
    for title, noise in NOISES.items():
        judged = [history(noise, window, window, tests=tests, seed=2) for window in (whole, early)]
        judged += [pairs(noise, window, tests=tests, seed=3) for window in (whole, early)]
        judged.append(history(noise, early, whole, tests=tests, seed=2))
        _row(title, *(_share(j.alarms, tests) for j in judged), _share(judged[-1].failures, tests))
    print("\nSmallest slowdown of a test found 95 times in 100, %\n")
    _row("noise", "records", "records, early", "pairs", "pairs, early")
    _row(*["---"] * 5)
    for title, noise in NOISES_OF_LAUNCHES.items():
        judged = [history(noise, w, w, tests=tests, seed=4) for w in (whole, early)]
        judged += [pairs(noise, w, tests=tests, seed=5) for w in (whole, early)]
        _row(title, *(f"{j.found_percent:.2f}" for j in judged))


if __name__ == "__main__":
    _tables()
