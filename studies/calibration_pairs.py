"""Simulation for the tables of docs/studies/calibration.md on --against: false alarms, undecided tests and power.

python -m studies.calibration_pairs      these tables alone; ``python -m studies.calibration`` prints them after its own

A run judges its tests one after another, as ``compare`` does: first a few pairs, then one more at a time while the test
is undecided, with the pooled spread of all pairs of the run so far as the prior. To add a noise, extend NOISES.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fixtures.stats.ab_test import _MAX_OUTLYING_SHARE, _MIN_DEGREES, _NOISIER, _OUTLYING, PRIOR_DEGREES, PRIOR_SPREAD

Logs = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]

TESTS, MAX_PAIRS = 100, 10
GOAL = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of ln(median of a launch), the same for both builds and independent.

    launch: standard deviation of a launch.
    process: standard deviation of the effect of a process on all its launches.
    outliers: share of launches that are slower by ``slower``.
    apart: standard deviation, over the tests, of the logarithm of a factor on ``launch``.
    noisy: share of tests that are ten times as noisy.
    """

    launch: float
    process: float = 0.0
    outliers: float = 0.0
    slower: float = math.log(1.1)
    apart: float = 0.0
    noisy: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The options of --against, alpha, and the number of tests by which alpha is divided."""

    first: int = 3
    max_pairs: int = MAX_PAIRS
    min_slowdown_percent: float = 1.0
    alpha: float = GOAL
    tests: int = TESTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Results at the end of the runs, shape (runs, tests). pairs: number of pairs of each test."""

    slower: Flags
    undecided: Flags
    pairs: Counts

    @property
    def red(self) -> int:
        """Number of runs in which any test is slower."""
        return int(self.slower.any(axis=1).sum())


def draw_pairs(noise: Noise, *, runs: int, seed: int, tests: int = TESTS, pairs: int = MAX_PAIRS) -> Logs:
    """Draw ln(own step time / step time of the other build) of unchanged code, shape (runs, tests, pairs)."""
    rng = np.random.default_rng(seed)
    shape = (runs, tests, pairs)
    spread = noise.launch * np.exp(noise.apart * rng.standard_normal((runs, tests, 1)))
    spread = spread * np.where(rng.random((runs, tests, 1)) < noise.noisy, 10, 1)
    own, other = (
        spread * rng.standard_normal(shape) + noise.slower * (rng.random(shape) < noise.outliers) for _ in range(2)
    )
    differences: Logs = own - other
    return differences


def processes(noise: Noise, *, runs: int, seed: int, tests: int = TESTS, pairs: int = MAX_PAIRS) -> Logs:
    """Effect of fresh processes on each pair, own minus other build, shape (runs, tests, pairs)."""
    rng = np.random.default_rng([seed, 1])
    return noise.process * math.sqrt(2) * rng.standard_normal((runs, tests, pairs))


def judged(differences: Logs, rule: Rule, fresh: Logs | None = None) -> Judged:
    """Vectorised ``compare`` over the runs, test by test; differences of shape (runs, tests, pairs).

    fresh: effect of the ``processes`` of each pair if they are started for it; None for no effect. The first pairs of a
    test use the live processes of the test before. Each further pair replaced two of them with fresh ones.
    """
    runs, tests, _ = differences.shape
    fresh = np.zeros_like(differences) if fresh is None else fresh
    live = fresh[:, 0, : rule.first].copy()
    k = np.arange(rule.first, rule.max_pairs + 1)
    degrees = PRIOR_DEGREES + k - 1
    tails = rule.alpha / rule.tests / len(k), 0.025
    quantile, quantile_of_95 = (stats.t.isf(tail, degrees) for tail in tails)
    # NaN for one pair, whose variance is unknown.
    alone, alone_of_95 = (stats.t.isf(tail, k - 1) for tail in tails)
    least = math.log1p(rule.min_slowdown_percent / 100)
    squares_of, degrees_of = np.zeros((runs, tests)), np.zeros((runs, tests), dtype=np.int64)
    slower, undecided = np.empty((2, runs, tests), dtype=bool)
    pairs = np.empty((runs, tests), dtype=np.int64)
    for test in range(tests):
        process_effects = np.concatenate([live, fresh[:, test, rule.first : rule.max_pairs]], axis=1)
        d = differences[:, test, : rule.max_pairs] + process_effects
        change = d.cumsum(axis=1)[:, rule.first - 1 :] / k
        squares = (d**2).cumsum(axis=1)[:, rule.first - 1 :] - k * change**2
        earlier_squares, earlier_degrees = undisturbed(squares_of[:, :test], degrees_of[:, :test])
        pooled_degrees = earlier_degrees + k - 1
        limit = quantiles(_NOISIER)[k - 1, earlier_degrees]
        noisier = squares * earlier_degrees > limit * earlier_squares * (k - 1)
        known = (earlier_degrees >= _MIN_DEGREES) & ~noisier
        pooled = (earlier_squares + squares) / np.maximum(pooled_degrees, 1)
        prior = np.where(pooled_degrees >= _MIN_DEGREES, pooled, np.maximum(PRIOR_SPREAD**2, pooled))
        scale = np.sqrt((PRIOR_DEGREES * prior + squares) / degrees / k)
        own = np.where(known, 0, np.sqrt(squares / np.maximum(k - 1, 1) / k))
        threshold = np.maximum(np.fmax(quantile * scale, alone * own), least)
        margin = np.fmax(quantile_of_95 * scale, alone_of_95 * own)
        decidable = known | (k > 1)
        changed = (abs(change) > threshold) & decidable
        decided = changed | ((abs(change) + margin < least) & decidable)
        last = np.where(decided.any(axis=1), decided.argmax(axis=1), len(k) - 1)[:, None]
        slower[:, [test]] = np.take_along_axis(changed & (change > 0), last, axis=1)
        undecided[:, [test]] = ~np.take_along_axis(decided, last, axis=1)
        pairs[:, [test]] = k[last]
        squares_of[:, [test]] = np.take_along_axis(squares, last, axis=1)
        degrees_of[:, [test]] = k[last] - 1
        for pair in range(rule.first, rule.max_pairs):
            slot = pair % rule.first
            live[:, slot] = np.where(k[last[:, 0]] > pair, fresh[:, test, pair], live[:, slot])
    return Judged(slower=slower, undecided=undecided, pairs=pairs)


@functools.cache
def quantiles(share: float) -> Logs:
    """Quantiles of F, by degrees of freedom of the numerator (one test) and of the denominator (all tests)."""
    degrees = np.arange(MAX_PAIRS)[:, None], np.arange(TESTS * MAX_PAIRS)
    return np.asarray(special.fdtri(*degrees, share), dtype=np.float64)


def undisturbed(squares: Logs, degrees: Counts) -> tuple[Logs, Counts]:
    """Sums over the undisturbed earlier tests, from shape (runs, tests) to (runs, 1)."""
    all_squares, all_degrees = (values.sum(axis=1, keepdims=True) for values in (squares, degrees))
    most = max(1, int(_MAX_OUTLYING_SHARE * squares.shape[1]))
    if squares.shape[1] < 2:
        return all_squares, all_degrees
    variance = squares / np.maximum(degrees, 1)
    noisiest = np.argpartition(variance, -most, axis=1)[:, -most:]
    order = np.take_along_axis(noisiest, np.take_along_axis(variance, noisiest, axis=1).argsort(axis=1), axis=1)
    for place in range(1, most + 1):
        one_squares, one_degrees = (np.take_along_axis(v, order[:, [-place]], axis=1) for v in (squares, degrees))
        rest_squares, rest_degrees = all_squares - one_squares, all_degrees - one_degrees
        limit = quantiles(_OUTLYING)[one_degrees, rest_degrees]
        out = one_squares * rest_degrees > limit * rest_squares * one_degrees
        # If a test is not an outlier, the next ones are not either: they are less noisy, compared with as many others.
        all_squares, all_degrees = np.where(out, rest_squares, all_squares), np.where(out, rest_degrees, all_degrees)
    return all_squares, all_degrees


def judge_unchanged(noise: Noise, rule: Rule, *, batches: int, runs: int, tests: int = TESTS) -> list[Judged]:
    """Judge runs without a change, in batches to limit the memory."""
    shape = {"runs": runs, "tests": tests, "pairs": rule.max_pairs}
    return [
        judged(draw_pairs(noise, seed=seed, **shape), rule, processes(noise, seed=seed, **shape))
        for seed in range(batches)
    ]


def share_found(differences: Logs, slower: float, rule: Rule) -> float:
    """Share of runs in which a slowdown of one test, by ``slower`` in ln(time), is found; the test varies by run."""
    runs, tests, _ = differences.shape
    planted = np.arange(runs), np.arange(runs) % tests
    changed = differences.copy()
    changed[planted] += slower
    return float(judged(changed, rule).slower[planted].mean())


def smallest_found(differences: Logs, rule: Rule) -> float:
    """Smallest slowdown of one test, in %, that is found 95 times in 100."""
    low, high = 0.0, math.log(2)
    while high - low > 0.0002:
        middle = (low + high) / 2
        low, high = (low, middle) if share_found(differences, middle, rule) >= 0.95 else (middle, high)
    return 100 * math.expm1(high)


_SPREADS = {f"{100 * spread:g} % a launch": spread for spread in (0.001, 0.002, 0.004, 0.01, 0.03)}
NOISES = {
    **{title: Noise(launch=spread) for title, spread in _SPREADS.items()},
    **{f"{title}, outliers": Noise(launch=spread, outliers=0.05) for title, spread in _SPREADS.items()},
    "10 % a launch": Noise(launch=0.1),
    "0.4 % a launch, tests apart by a factor of 2": Noise(launch=0.004, apart=math.log(2)),
    "0.2 % a launch, a tenth of the tests ten times": Noise(launch=0.002, noisy=0.1),
    "0.2 % a launch, one launch in 500 12 % slower": Noise(launch=0.002, outliers=0.002, slower=math.log(1.12)),
}
# For runs with live processes, which one test hands on to the next.
NOISES_OF_PROCESSES = {
    "1 % a launch": Noise(launch=0.01),
    "3 % a launch": Noise(launch=0.03),
    "10 % a launch": Noise(launch=0.1),
    "0.05 % a launch, 0.2 % a process": Noise(launch=0.0005, process=0.002),
    "0.1 % a launch, 1 % a process": Noise(launch=0.001, process=0.01),
    "0.3 % a launch, 3 % a process": Noise(launch=0.003, process=0.03),
    "3 % a launch, 3 % a process": Noise(launch=0.03, process=0.03),
}
NUMBERS_OF_TESTS = (1, 4, 10, TESTS)
_UNDER_WRONG_RULES = ("1 % a launch", "3 % a launch", "10 % a launch")
RULES = [Rule(first=first, min_slowdown_percent=least) for least in (0.5, 1.0) for first in (2, 3)]


def _share(red: int, of: int) -> str:
    interval = stats.binomtest(red, of).proportion_ci(0.95)
    return f"{100 * red / of:.2f} ({100 * interval.low:.2f} to {100 * interval.high:.2f})"


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _head(*cells: object) -> None:
    _row("noise", *cells)
    _row(*["---"] * (1 + len(cells)))


def tables(batches: int = 5, runs: int = 2000) -> None:
    """Print the tables: red runs, red runs of few tests, undecided tests and their cost, power, and wrong rules."""
    heads = [f"{rule.first} pairs, {rule.min_slowdown_percent:g} %" for rule in RULES]
    undecided: dict[str, list[str]] = {}
    print("\n--against: red runs of unchanged code, % (95 % interval); 100 tests\n")
    _head(*heads)
    for title, noise in NOISES.items():
        results = [judge_unchanged(noise, rule, batches=batches, runs=runs) for rule in RULES]
        undecided[title] = [
            f"{100 * np.mean([j.undecided for j in batch]):.1f}; {np.mean([j.pairs for j in batch]):.1f}"
            for batch in results
        ]
        _row(title, *(_share(sum(j.red for j in batch), batches * runs) for batch in results))
    print("\nRed runs by number of unchanged tests, %; 3 pairs, 1 %\n")
    _head(*NUMBERS_OF_TESTS)
    for title, noise in NOISES_OF_PROCESSES.items():
        results = [judge_unchanged(noise, Rule(tests=n), batches=batches, runs=runs, tests=n) for n in NUMBERS_OF_TESTS]
        _row(title, *(_share(sum(j.red for j in batch), batches * runs) for batch in results))
    print("\nUnchanged tests that are undecided at the end, %; pairs of launches a test\n")
    _head(*heads)
    for title, cells in undecided.items():
        _row(title, *cells)
    print("\nSmallest slowdown of one test found 95 times in 100, %; share of slowdowns of 1 % that are found, %\n")
    _head(*heads)
    for title, noise in NOISES.items():
        flat = draw_pairs(noise, runs=runs, seed=95)
        found = [(smallest_found(flat, rule), 100 * share_found(flat, math.log(1.01), rule)) for rule in RULES]
        _row(title, *(f"{smallest:.2f}; {share:.1f}" for smallest, share in found))
    print("\nRed runs of unchanged code under wrong rules, %; 3 pairs, 1 %\n")
    rules = {
        "the rule": Rule(),
        "alpha not divided by looks": Rule(alpha=GOAL * (1 + MAX_PAIRS - Rule().first)),
        "not by tests": Rule(tests=1),
    }
    _head(*rules)
    for title in _UNDER_WRONG_RULES:
        results = [judge_unchanged(NOISES[title], rule, batches=batches, runs=runs) for rule in rules.values()]
        _row(title, *(_share(sum(j.red for j in batch), batches * runs) for batch in results))


if __name__ == "__main__":
    tables()
