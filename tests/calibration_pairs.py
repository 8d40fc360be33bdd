"""The tables of docs/calibration.md on --against: how often unchanged runs are red, what is undecided, what is found.

python -m tests.calibration_pairs          these tables alone; ``python -m tests.calibration`` prints them after its own

A run judges its tests one after another, as ``compare`` does: some first pairs, then one at a time while the test is
undecided, with the spread of all pairs of the run so far as the prior. A further kind of noise is one more in NOISES.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fixtures.judge.pairs import _DISTURBED, _ENOUGH_DEGREES, _LEFT_OUT, _LOUDER
from fixtures.judge.verdict import PRIOR_DEGREES, PRIOR_SPREAD

Logs = NDArray[np.float64]
Found = NDArray[np.bool_]
Counts = NDArray[np.int64]

TESTS, MAX_PAIRS = 100, 10
GOAL = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Of the logarithm of a launch's median, the same under both builds and independent.

    launch: standard deviation. process: of what a process adds to all its launches. outliers: share of launches that
    are slower by ``slower``. apart: standard deviation of the logarithm of how much noisier one test is than another.
    loud: share of tests that are ten times as noisy.
    """

    launch: float
    process: float = 0.0
    outliers: float = 0.0
    slower: float = math.log(1.1)
    apart: float = 0.0
    loud: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The options of --against, and the number of tests by which the share of false alarms is divided."""

    first: int = 3
    max_pairs: int = MAX_PAIRS
    min_slowdown_percent: float = 1.0
    alpha: float = GOAL
    tests: int = TESTS


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """At the end of the runs, shape (runs, tests). pairs: how many each test got."""

    slower: Found
    undecided: Found
    pairs: Counts

    @property
    def red(self) -> int:
        """Runs in which any test is slower."""
        return int(self.slower.any(axis=1).sum())


def drawn(noise: Noise, *, runs: int, seed: int, tests: int = TESTS, pairs: int = MAX_PAIRS) -> Logs:
    """ln(own step time / the other's) of unchanged code, shape (runs, tests, pairs)."""
    rng = np.random.default_rng(seed)
    shape = (runs, tests, pairs)
    spread = noise.launch * np.exp(noise.apart * rng.standard_normal((runs, tests, 1)))
    spread = spread * np.where(rng.random((runs, tests, 1)) < noise.loud, 10, 1)
    own, other = (
        spread * rng.standard_normal(shape) + noise.slower * (rng.random(shape) < noise.outliers) for _ in range(2)
    )
    differences: Logs = own - other
    return differences


def processes(noise: Noise, *, runs: int, seed: int, tests: int = TESTS, pairs: int = MAX_PAIRS) -> Logs:
    """What each pair would have of its processes if they were fresh, own less other's, shape (runs, tests, pairs)."""
    rng = np.random.default_rng([seed, 1])
    return noise.process * math.sqrt(2) * rng.standard_normal((runs, tests, pairs))


def judged(differences: Logs, rule: Rule, fresh: Logs | None = None) -> Judged:
    """``compare`` for all runs at once, test by test; differences of shape (runs, tests, pairs).

    ``fresh``: what the ``processes`` of each pair add if they are started for it, None: nothing. Those of the first
    pairs are live: they stay what they were in the test before, which for a further pair began two anew.
    """
    runs, tests, _ = differences.shape
    fresh = np.zeros_like(differences) if fresh is None else fresh
    live = fresh[:, 0, : rule.first].copy()
    k = np.arange(rule.first, rule.max_pairs + 1)
    degrees = PRIOR_DEGREES + k - 1
    tails = rule.alpha / rule.tests / len(k), 0.025
    quantile, quantile_of_95 = (stats.t.isf(tail, degrees) for tail in tails)
    # NaN of one pair, which has no spread of its own.
    alone, alone_of_95 = (stats.t.isf(tail, k - 1) for tail in tails)
    least = math.log1p(rule.min_slowdown_percent / 100)
    squares_of, degrees_of = np.zeros((runs, tests)), np.zeros((runs, tests), dtype=np.int64)
    slower, undecided = np.empty((2, runs, tests), dtype=bool)
    pairs = np.empty((runs, tests), dtype=np.int64)
    for test in range(tests):
        of_processes = np.concatenate([live, fresh[:, test, rule.first : rule.max_pairs]], axis=1)
        d = differences[:, test, : rule.max_pairs] + of_processes
        change = d.cumsum(axis=1)[:, rule.first - 1 :] / k
        squares = (d**2).cumsum(axis=1)[:, rule.first - 1 :] - k * change**2
        earlier_squares, earlier_degrees = undisturbed(squares_of[:, :test], degrees_of[:, :test])
        pooled_degrees = earlier_degrees + k - 1
        limit = quantiles(_LOUDER)[k - 1, earlier_degrees]
        louder = squares * earlier_degrees > limit * earlier_squares * (k - 1)
        known = (earlier_degrees >= _ENOUGH_DEGREES) & ~louder
        pooled = (earlier_squares + squares) / np.maximum(pooled_degrees, 1)
        prior = np.where(pooled_degrees >= _ENOUGH_DEGREES, pooled, np.maximum(PRIOR_SPREAD**2, pooled))
        scale = np.sqrt((PRIOR_DEGREES * prior + squares) / degrees / k)
        own = np.where(known, 0, np.sqrt(squares / np.maximum(k - 1, 1) / k))
        threshold = np.maximum(np.fmax(quantile * scale, alone * own), least)
        reach = np.fmax(quantile_of_95 * scale, alone_of_95 * own)
        told = known | (k > 1)
        changed = (abs(change) > threshold) & told
        decided = changed | ((abs(change) + reach < least) & told)
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
    """Of F, by degrees of freedom of the numerator and, of all tests of a run, of the denominator."""
    degrees = np.arange(MAX_PAIRS)[:, None], np.arange(TESTS * MAX_PAIRS)
    return np.asarray(special.fdtri(*degrees, share), dtype=np.float64)


def undisturbed(squares: Logs, degrees: Counts) -> tuple[Logs, Counts]:
    """Sums over the earlier tests, shape (runs, tests) each, without the disturbed ones; shape (runs, 1)."""
    all_squares, all_degrees = (one.sum(axis=1, keepdims=True) for one in (squares, degrees))
    most = max(1, int(_LEFT_OUT * squares.shape[1]))
    if squares.shape[1] < 2:
        return all_squares, all_degrees
    variance = squares / np.maximum(degrees, 1)
    loudest = np.argpartition(variance, -most, axis=1)[:, -most:]
    order = np.take_along_axis(loudest, np.take_along_axis(variance, loudest, axis=1).argsort(axis=1), axis=1)
    for place in range(1, most + 1):
        one_squares, one_degrees = (np.take_along_axis(one, order[:, [-place]], axis=1) for one in (squares, degrees))
        rest_squares, rest_degrees = all_squares - one_squares, all_degrees - one_degrees
        limit = quantiles(_DISTURBED)[one_degrees, rest_degrees]
        out = one_squares * rest_degrees > limit * rest_squares * one_degrees
        # One that is not beyond leaves those after it in as well: they are quieter, beside no fewer others.
        all_squares, all_degrees = np.where(out, rest_squares, all_squares), np.where(out, rest_degrees, all_degrees)
    return all_squares, all_degrees


def of_unchanged(noise: Noise, rule: Rule, *, batches: int, runs: int, tests: int = TESTS) -> list[Judged]:
    """Runs without a change; batch by batch, which bounds the memory."""
    asked = {"runs": runs, "tests": tests, "pairs": rule.max_pairs}
    return [
        judged(drawn(noise, seed=seed, **asked), rule, processes(noise, seed=seed, **asked)) for seed in range(batches)
    ]


def share_found(differences: Logs, slower: float, rule: Rule) -> float:
    """Of runs in which one test, each time another, is slower by this logarithm, the share in which that one fails."""
    runs, tests, _ = differences.shape
    planted = np.arange(runs), np.arange(runs) % tests
    changed = differences.copy()
    changed[planted] += slower
    return float(judged(changed, rule).slower[planted].mean())


def smallest_found(differences: Logs, rule: Rule) -> float:
    """The smallest slowdown of one test, in %, that is found 95 times in 100."""
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
    "0.2 % a launch, a tenth of the tests ten times": Noise(launch=0.002, loud=0.1),
    "0.2 % a launch, one launch in 500 12 % slower": Noise(launch=0.002, outliers=0.002, slower=math.log(1.12)),
}
# Of runs of any number of tests, whose processes are live from test to test.
OF_PROCESSES = {
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
    """Print them: red runs, also of few tests, what is undecided and at what cost, what is found, and wrong rules."""
    heads = [f"{rule.first} pairs, {rule.min_slowdown_percent:g} %" for rule in RULES]
    undecided: dict[str, list[str]] = {}
    print("\n--against: red runs of unchanged code, % (95 % interval); 100 tests\n")
    _head(*heads)
    for title, noise in NOISES.items():
        seen = [of_unchanged(noise, rule, batches=batches, runs=runs) for rule in RULES]
        undecided[title] = [
            f"{100 * np.mean([one.undecided for one in of]):.1f}; {np.mean([one.pairs for one in of]):.1f}"
            for of in seen
        ]
        _row(title, *(_share(sum(one.red for one in of), batches * runs) for of in seen))
    print("\nRed runs of so many unchanged tests, %; 3 pairs, 1 %\n")
    _head(*NUMBERS_OF_TESTS)
    for title, noise in OF_PROCESSES.items():
        seen = [of_unchanged(noise, Rule(tests=n), batches=batches, runs=runs, tests=n) for n in NUMBERS_OF_TESTS]
        _row(title, *(_share(sum(one.red for one in of), batches * runs) for of in seen))
    print("\nUnchanged tests that are undecided at the end, %; pairs of launches a test\n")
    _head(*heads)
    for title, cells in undecided.items():
        _row(title, *cells)
    print("\nSmallest slowdown of one test found 95 times in 100, %; share of slowdowns of 1 % that are found, %\n")
    _head(*heads)
    for title, noise in NOISES.items():
        flat = drawn(noise, runs=runs, seed=95)
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
        judges = [of_unchanged(NOISES[title], rule, batches=batches, runs=runs) for rule in rules.values()]
        _row(title, *(_share(sum(one.red for one in of), batches * runs) for of in judges))


if __name__ == "__main__":
    tables()
