"""Simulation for the tables of docs/studies/calibration.md: false alarms and power of the verdict.

python -m studies.calibration          false alarms, then the smallest slowdown found 95 times in 100, then other rules,
                                       then --against (studies/calibration_pairs.py)

Log step time = night of the machine (common to all tests) + night of the test + launch + step, all normal; 2 % of the
steps take half as long again. Canaries follow the night of the machine, with a launch noise of their own. The canary of
the host follows the nights of the host, which also slow the tests that the host limits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.stats.common_shift import SHIFT_SHARE
from fixtures.stats.verdict import (
    MIN_SIMILAR_TESTS,
    MIN_TESTS_FOR_PRIOR,
    PRIOR_DEGREES,
    PRIOR_SPREAD,
    SIMILAR_SPREAD_RATIO,
)
from studies import calibration_pairs

Logs = NDArray[np.float64]
Flags = NDArray[np.bool_]

TESTS, LAUNCHES, STEPS, CANARIES, LOOKS = 100, 3, 20, 5, 2
# The tests with a planted slowdown: one without a limiting host, one that the host limits (if it limits any), all.
FIRST, LAST, ALL = slice(0, 1), slice(-1, None), slice(None)
NOISIER = 20
# Noise of a launch: of the host's canary (mean over the ranks), and additionally of the tests that the host limits.
HOST_LAUNCH, LIMITED_LAUNCH = 0.08, 0.03
_SMALLEST = math.log(1.01)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of ln(time).

    machine, night, launch, step, host: standard deviations of the machine's nights, a test's nights, launches, steps,
        and the host's nights.
    apart: standard deviation, over the tests, of the logarithm of a factor on ``night``.
    bimodal: share of launches that are 3 % slower.
    canaries: canaries follow the machine's nights and its change during the run.
    midway: slowdown of the machine after a quarter of the tests of the run.
    noisy: share of the tests (the last ones) whose nights and launches are NOISIER times as noisy.
    limited: share of the tests (the last ones) that the host limits.
    """

    machine: float = 0.0
    night: float = 0.01
    launch: float = 0.005
    step: float = 0.03
    apart: float = 0.0
    bimodal: float = 0.0
    canaries: bool = True
    midway: float = 0.0
    noisy: float = 0.0
    host: float = 0.0
    limited: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Nights:
    """Simulated runs with their records, in ln(time). On the axis of records + 1, the run itself is last.

    medians: medians of launches, shape (runs, tests, records + 1, launches).
    steps: steps of the last record and of the run, shape (runs, tests, 2, launches, steps).
    canaries: shape (runs, canaries, records + 1, looks, launches).
    host: the host's canary, shape (runs, 1, records + 1, looks, launches).
    limited: True for the tests that the host limits, shape (tests,).
    """

    medians: Logs
    steps: Logs
    canaries: Logs
    host: Logs
    limited: Flags


def nights(noise: Noise, *, runs: int, records: int, seed: int, tests: int = TESTS) -> Nights:
    """Simulate nights of unchanged code."""
    rng = np.random.default_rng([seed, records])
    shape = (runs, tests, records + 1, LAUNCHES)
    step = noise.step * rng.standard_normal((*shape, STEPS), dtype=np.float32)
    step += np.float32(math.log(1.5)) * (rng.random(step.shape, dtype=np.float32) < 0.02)
    machine = noise.machine * rng.standard_normal((runs, 1, records + 1, 1))
    apart = np.exp(noise.apart * rng.standard_normal((runs, tests, 1, 1)))
    factor = np.where(np.arange(tests) < tests * (1 - noise.noisy), 1, NOISIER)[:, None, None]
    level = machine + noise.night * factor * apart * rng.standard_normal((*shape[:-1], 1))
    level = level + noise.launch * factor * rng.standard_normal(shape) + 0.03 * (rng.random(shape) < noise.bimodal)
    canaries = noise.launch * rng.standard_normal((runs, CANARIES, records + 1, LOOKS, LAUNCHES))
    level[:, tests // 4 :, -1] += noise.midway
    canaries[:, :, -1, 1:] += noise.midway * noise.canaries
    limited = np.arange(tests) >= tests * (1 - noise.limited)
    host = noise.host * rng.standard_normal((runs, 1, records + 1, 1))
    level = level + limited[:, None, None] * (host + LIMITED_LAUNCH * rng.standard_normal(shape))
    host_launches = HOST_LAUNCH * rng.standard_normal((runs, 1, records + 1, LOOKS, LAUNCHES))
    steps = level[:, :, -2:, :, None] + step[:, :, -2:]
    step.partition((STEPS // 2 - 1, STEPS // 2), axis=-1)
    return Nights(
        medians=level + step[..., STEPS // 2 - 1 : STEPS // 2 + 1].mean(axis=-1),
        steps=steps,
        canaries=canaries + machine[..., None] * noise.canaries,
        host=host_launches + host[..., None],
        limited=limited,
    )


def rule(
    medians: Logs, *, alpha: float, tests: int, prior: float | Logs = PRIOR_SPREAD, smallest: float = _SMALLEST
) -> tuple[Logs, Logs]:
    """Vectorised ``judge``: changes and thresholds in ln(time), shape (runs, tests)."""
    now, history = medians[..., -1, :], medians[..., :-1, :]
    return rule_on(now, history, alpha=alpha, tests=tests, prior=prior, smallest=smallest)


def rule_on(
    now: Logs,
    history: Logs,
    *,
    alpha: float,
    tests: int,
    prior: float | Logs = PRIOR_SPREAD,
    smallest: float = _SMALLEST,
) -> tuple[Logs, Logs]:
    """``rule`` with separate launches now (runs, tests, launches) and in records (runs, tests, records, launches)."""
    (mean_now, error_now), (means, errors) = map(_summary, (now, history))
    m = means.shape[-1]
    degrees = PRIOR_DEGREES + m - 1
    squares = ((means - means.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    s = np.sqrt((PRIOR_DEGREES * np.square(prior) + squares) / degrees)
    s = np.maximum.reduce([s, error_now, np.sqrt((errors**2).mean(axis=-1))])
    limit = stats.t.isf(alpha / tests, degrees) * s * math.sqrt(1 + 1 / m)
    return mean_now - means.mean(axis=-1), np.maximum(limit, smallest)


def _summary(launches: Logs) -> tuple[Logs, Logs]:
    """Mean and its standard error over the last axis."""
    return launches.mean(axis=-1), launches.std(axis=-1, ddof=1) / math.sqrt(launches.shape[-1])


def prior_spreads(medians: Logs) -> float | Logs:
    """Vectorised ``prior_spread_for``, shape (runs, tests)."""
    means, errors = _summary(medians)
    if means.shape[-1] == 2 or means.shape[1] < MIN_TESTS_FOR_PRIOR:
        return PRIOR_SPREAD
    spread = np.sqrt((errors[..., :-1] ** 2).mean(axis=-1))
    own = np.sqrt((errors**2).mean(axis=-1))
    quietest_first = np.argsort(spread, axis=1)
    variances = np.take_along_axis(means[..., :-1].var(axis=-1, ddof=1), quietest_first, axis=1)
    number = (
        (spread[:, None, :] <= SIMILAR_SPREAD_RATIO * own[:, :, None])
        .sum(axis=-1)
        .clip(min=min(MIN_SIMILAR_TESTS, spread.shape[1]))
    )
    priors = np.empty_like(own)
    for many in np.unique(number):
        similar = np.sort(variances[:, :many], axis=1)[:, : many - max(1, many // 20)].mean(axis=1)
        np.copyto(priors, similar[:, None], where=number == many)
    spreads: Logs = np.sqrt(np.maximum(PRIOR_SPREAD**2, priors))
    return spreads


def shift(medians: Logs, *, alpha: float) -> tuple[Logs, Logs]:
    """Vectorised ``common_shift`` without canaries: change and threshold in ln(time), shape (runs,)."""
    means = medians.mean(axis=-1)
    now, history = means[..., -1], means[..., :-1]
    m = history.shape[-1]
    degrees = PRIOR_DEGREES + m - 1
    changes = now - history.mean(axis=-1)
    change = np.median(changes, axis=1)
    record_shifts = np.median(history - history.mean(axis=-1, keepdims=True), axis=1)
    s = np.sqrt((PRIOR_DEGREES * PRIOR_SPREAD**2 + (record_shifts**2).sum(axis=-1)) / degrees)
    scatter = np.median(abs(changes - change[:, None]), axis=1) * 1.2533 * 1.4826 / math.sqrt(changes.shape[1])
    scale = np.maximum(s * math.sqrt(1 + 1 / m), scatter)
    return change, np.maximum(stats.t.isf(alpha, degrees) * scale, _SMALLEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Red:
    """Failures of unchanged runs.

    single: failed tests, shape (runs, tests). common: failed common shift, shape (runs,).
    explained: change that the canaries explain, in ln(time), shape (runs,).
    """

    single: Flags
    common: Flags
    explained: Logs

    @property
    def runs(self) -> Flags:
        red: Flags = self.single.any(axis=1) | self.common
        return red


def whole_rule(seen: Nights) -> Red:
    """The complete rule: prior of similar tests, common shift, canaries, and the host for the tests that it limits.

    The host may limit at most half of the tests here; if it limited more, it would explain the common shift too.
    """
    medians, alpha = seen.medians, 0.01
    priors = prior_spreads(medians)
    changes, limits = rule(medians, alpha=alpha * (1 - SHIFT_SHARE), tests=medians.shape[1], prior=priors)
    common, common_limit = shift(medians, alpha=alpha * SHIFT_SHARE)
    explained = np.where(common > common_limit, np.minimum(common, largest_canary_change(seen.canaries)), 0)
    by_host = np.minimum(changes, slower_host(seen.host)[:, None])
    excused = np.maximum(explained[:, None], np.where(seen.limited, by_host, 0))
    return Red(single=changes - excused > limits, common=common - explained > common_limit, explained=explained)


def largest_canary_change(canaries: Logs) -> Logs:
    """Largest change of a slower canary over the looks, shape (runs,)."""
    runs, number, records, looks, launches = canaries.shape
    history = canaries[:, :, :-1].reshape(runs, number, records - 1, looks * launches)
    largest = np.zeros(runs)
    for look in range(looks):
        change, limit = rule_on(canaries[:, :, -1, look], history, alpha=0.05, tests=number * looks)
        largest = np.maximum(largest, np.where(change > limit, change, 0).max(axis=1))
    return largest


def slower_host(host: Logs) -> Logs:
    """Smallest change of the host over the looks if the host is slower there, else 0; shape (runs,)."""
    runs, _, records, looks, launches = host.shape
    history = host[:, :, :-1].reshape(runs, 1, records - 1, looks * launches)
    judged = [rule_on(host[:, :, -1, look], history, alpha=0.05, tests=1) for look in range(looks)]
    changes, limits = (np.stack(values)[:, :, 0] for values in zip(*judged, strict=True))
    least = changes.argmin(axis=0), np.arange(runs)
    slower: Logs = np.where(changes[least] > limits[least], changes[least], 0)
    return slower


def without_canaries(seen: Nights) -> Flags:
    """Prior of similar tests and common shift, with flat canaries."""
    return whole_rule(replace(seen, canaries=np.zeros_like(seen.canaries), host=np.zeros_like(seen.host))).runs


def first_rule(seen: Nights) -> Flags:
    """The first version of the rule: a prior of 1 % for every instance, no common shift; shape (runs, tests)."""
    changes, limits = rule(seen.medians, alpha=0.01, tests=seen.medians.shape[1])
    slower: Flags = changes > limits
    return slower


def mean_5_percent(seen: Nights) -> Flags:
    """pytest-benchmark's --benchmark-compare-fail=mean:5%, against the last run."""
    means = np.exp(seen.steps).mean(axis=(-1, -2))
    slower: Flags = means[..., 1] > 1.05 * means[..., 0]
    return slower


def torchbench_7_percent(seen: Nights) -> Flags:
    """TorchBench's 7 % on one number, here the median of all steps, against the last run."""
    medians = np.median(seen.steps.reshape(*seen.steps.shape[:3], -1), axis=-1)
    slower: Flags = medians[..., 1] - medians[..., 0] > math.log(1.07)
    return slower


def mann_whitney(seen: Nights) -> Flags:
    """Two-sided Mann-Whitney test on the steps at 0.05, as in benchstat, with a larger median now."""
    steps = seen.steps.reshape(*seen.steps.shape[:3], -1)
    result = stats.mannwhitneyu(steps[:, :, 1], steps[:, :, 0], axis=-1, method="asymptotic")
    slower: Flags = (result.pvalue < 0.05) & (np.median(steps[:, :, 1], axis=-1) > np.median(steps[:, :, 0], axis=-1))
    return slower


def red_runs(
    rule: Callable[[Nights], Flags], noise: Noise, *, records: int, batches: int, runs: int
) -> tuple[int, int]:
    """Number of unchanged runs that fail, and number of all runs."""
    red = 0
    for seed in range(batches):
        found = rule(nights(noise, runs=runs, records=records, seed=seed))
        red += int((found.any(axis=1) if found.ndim > 1 else found).sum())
    return red, batches * runs


def smallest_found(
    rule: Callable[[Nights], Flags], noise: Noise, *, records: int, runs: int, which: slice = FIRST
) -> float | None:
    """Smallest slowdown of these tests, in %, that is found 95 times in 100; None if it is over 100 %."""
    flat = nights(noise, runs=runs, records=records, seed=95)
    low, high = 0.0, math.log(2)
    if not _share_found(rule, flat, high, which) >= 0.95:
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if _share_found(rule, flat, middle, which) >= 0.95 else (middle, high)
    return 100 * math.expm1(high)


def _share_found(rule: Callable[[Nights], Flags], flat: Nights, slower: float, tests: slice) -> float:
    medians, steps = flat.medians.copy(), flat.steps.copy()
    medians[:, tests, -1] += slower
    steps[:, tests, -1] += slower
    found = rule(replace(flat, medians=medians, steps=steps))
    return float((found if found.ndim == 1 else found[:, tests].any(axis=1)).mean())


_QUIET = Noise(night=0.003, launch=0.001, step=0.003, limited=0.25)
NOISES = {
    "1 % a night": Noise(),
    "1 % a night, a tenth of the launches 3 % slower": Noise(bimodal=0.1),
    "1 % a night, tests apart by a factor of 2": Noise(apart=math.log(2)),
    "3 % a night": Noise(night=0.03),
    "3 % a night, tests apart by a factor of 2": Noise(night=0.03, apart=math.log(2)),
    "0.3 % a night, launches too, a quarter of the tests 20 times": Noise(night=0.003, launch=0.003, noisy=0.25),
    "the machine 3 %, canaries feel it": Noise(night=0.005, machine=0.03),
    "the machine 3 %, canaries do not": Noise(night=0.005, machine=0.03, canaries=False),
    "1 % a night, the machine 30 % slower in the run, canaries feel it": Noise(midway=math.log(1.3)),
    "0.3 % a night, 0.1 % a launch, a quarter of the tests with the host's nights of 15 %": replace(_QUIET, host=0.15),
    "0.3 % a night, 0.1 % a launch, a quarter of the tests with the host's nights of 30 %": replace(_QUIET, host=0.3),
}
RECORDS = (1, 3, 10)


def _share(red: int, of: int) -> str:
    interval = stats.binomtest(red, of).proportion_ci(0.95)
    return f"{100 * red / of:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def _row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def _percent(size: float | None) -> str:
    return "over 100" if size is None else f"{size:.1f}"


def _tables() -> None:
    rules: dict[str, Callable[[Nights], Flags]] = {
        "a prior of 1 % for all": first_rule,
        "prior of similar tests, common shift": without_canaries,
        "and canaries: the rule": lambda seen: whole_rule(seen).runs,
    }
    print("\nRed runs of unchanged code, % (95 % interval); 100 tests\n")
    _row("noise", "rule", *(f"{records} records" for records in RECORDS))
    _row(*["---"] * 5)
    for title, noise in NOISES.items():
        for name, judge in rules.items():
            _row(title, name, *(_share(*red_runs(judge, noise, records=m, batches=20, runs=100)) for m in RECORDS))
    print("\nSmallest slowdown found 95 times in 100, %: of one test of 100, and of all\n")
    _row("noise", "of", *(f"{records} records" for records in RECORDS))
    _row(*["---"] * 5)
    for title, noise in {"0.3 % a night": Noise(night=0.003, launch=0.002, step=0.01), **NOISES}.items():
        single = lambda seen: whole_rule(seen).single  # noqa: E731
        whole = lambda seen: whole_rule(seen).runs  # noqa: E731
        _row(
            title,
            "one, a prior of 1 %",
            *(_percent(smallest_found(first_rule, noise, records=m, runs=200)) for m in RECORDS),
        )
        _row(title, "one", *(_percent(smallest_found(single, noise, records=m, runs=200)) for m in RECORDS))
        _row(title, "all", *(_percent(smallest_found(whole, noise, records=m, runs=200, which=ALL)) for m in RECORDS))
        if noise.limited:
            found = (smallest_found(single, noise, records=m, runs=200, which=LAST) for m in RECORDS)
            _row(title, "one that the host limits", *map(_percent, found))
    print("\nThe same data judged by rules in common use; 3 records\n")
    others: dict[str, Callable[[Nights], Flags]] = {
        "this rule": lambda seen: whole_rule(seen).runs,
        "`mean:5%` against the last run": mean_5_percent,
        "7 % on the median against the last run": torchbench_7_percent,
        "Mann-Whitney at 0.05 on steps": mann_whitney,
    }
    _row("noise", "rule", "red runs, %", "smallest slowdown of one test found 95 in 100, %")
    _row(*["---"] * 4)
    for title in ("1 % a night", "3 % a night", "the machine 3 %, canaries feel it"):
        for name, judge in others.items():
            batches = 1 if judge is mann_whitney else 20
            red = _share(*red_runs(judge, NOISES[title], records=3, batches=batches, runs=100))
            finds = (lambda seen: whole_rule(seen).single) if name == "this rule" else judge
            runs = 100 if judge is mann_whitney else 200
            _row(title, name, red, _percent(smallest_found(finds, NOISES[title], records=3, runs=runs)))


if __name__ == "__main__":
    _tables()
    calibration_pairs.tables()
