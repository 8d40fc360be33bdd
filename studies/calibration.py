"""Simulation for docs/studies/accuracy.md: false alarms and power of the verdict.

python -m studies.calibration          red, found, rules: false alarms, the smallest slowdown found 95 times in 100,
                                       other rules; then --against (studies/calibration_pairs.py)
python -m studies.calibration red      one of the tables

Log step time = night of the machine (common to all tests) + night of the test + launch + step, all normal; 2 % of the
steps take half as long again. Canaries follow the night of the machine, with a launch noise of their own. The canary of
the host follows the nights of the host, which also slow the tests that the host limits.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.stats.decision import share_of_tests_percent
from fixtures.stats.fitted_prior import SHIPPED
from fixtures.stats.prior import WIDE, Kind, LaunchSpread, Spread, fit, vague
from fixtures.stats.thresholds import (
    FLOOR,
    MACHINE_SHARE,
    MAX_DEGREES,
    MAX_MEASUREMENTS,
    MIN_TESTS,
    MIN_TOGETHER,
    SHIFT_SHARE,
)
from studies import calibration_pairs

Logs = NDArray[np.float64]
Flags = NDArray[np.bool_]

TESTS, LAUNCHES, STEPS, CANARIES, LOOKS = 100, 3, 20, 5, 2
# The tests with a planted slowdown.
FIRST, ALL = slice(0, 1), slice(None)
NOISIER = 20
# Noise of a launch: of the host's canary (mean over the ranks), and additionally of the tests that the host limits.
HOST_LAUNCH, LIMITED_LAUNCH = 0.08, 0.03
_SMALLEST = math.log(1.01)
_BATCH = 50


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
    tails: degrees of freedom of Student's t for the nights, launches and hosts; infinite: normal.
    second_host: half of the nights are on a second kind of host, where each test differs by a constant of its own, of
        this standard deviation.
    mixed: smallest and largest factor on the nights and launches of a test, drawn for each test, uniform in logarithm.
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
    tails: float = math.inf
    second_host: float = 0.0
    mixed: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Nights:
    """Simulated runs with their records, in ln(time). On the axis of records + 1, the run itself is last.

    medians: medians of launches, shape (runs, tests, records + 1, launches).
    again: medians of the launches of later measurements in the night of the run, shape (runs, tests, later, launches).
    steps: steps of the last record and of the run, shape (runs, tests, 2, launches, steps).
    canaries: shape (runs, canaries, records + 1, looks, launches).
    host: the host's canary, shape (runs, 1, records + 1, looks, launches).
    limited: True for the tests that the host limits, shape (tests,).
    """

    medians: Logs
    again: Logs
    steps: Logs
    canaries: Logs
    host: Logs
    limited: Flags


def nights(noise: Noise, *, runs: int, records: int, seed: int, tests: int = TESTS) -> Nights:
    """Simulate nights of unchanged code."""
    rng = np.random.default_rng([seed, records])

    def draw(shape: tuple[int, ...]) -> Logs:
        """Noise with variance 1."""
        if math.isinf(noise.tails):
            return rng.standard_normal(shape)
        return rng.standard_t(noise.tails, shape) * math.sqrt((noise.tails - 2) / noise.tails)

    shape = (runs, tests, records + 1, LAUNCHES)
    step = noise.step * rng.standard_normal((*shape, STEPS), dtype=np.float32)
    step += np.float32(math.log(1.5)) * (rng.random(step.shape, dtype=np.float32) < 0.02)
    machine = noise.machine * rng.standard_normal((runs, 1, records + 1, 1))
    apart = np.exp(noise.apart * rng.standard_normal((runs, tests, 1, 1)))
    factor = np.where(np.arange(tests) < tests * (1 - noise.noisy), 1, NOISIER)[:, None, None]
    if noise.mixed is not None:
        low, high = map(math.log, noise.mixed)
        factor = factor * np.exp(rng.uniform(low, high, (runs, tests, 1, 1)))
    level = machine + noise.night * factor * apart * draw((*shape[:-1], 1))
    second = noise.second_host * rng.standard_normal((runs, tests, 1, 1))
    level = level + second * (rng.random((runs, 1, records + 1, 1)) < 0.5)
    later = (runs, tests, MAX_MEASUREMENTS - 1, LAUNCHES)
    again = level[:, :, -1:] + noise.launch * factor * draw(later)
    again += 0.03 * (rng.random(later) < noise.bimodal)
    again += noise.step * 1.2533 / math.sqrt(STEPS) * rng.standard_normal(again.shape)
    level = level + noise.launch * factor * draw(shape) + 0.03 * (rng.random(shape) < noise.bimodal)
    canaries = noise.launch * rng.standard_normal((runs, CANARIES, records + 1, LOOKS, LAUNCHES))
    level[:, tests // 4 :, -1] += noise.midway
    again[:, tests // 4 :] += noise.midway
    canaries[:, :, -1, 1:] += noise.midway * noise.canaries
    limited = np.arange(tests) >= tests * (1 - noise.limited)
    host = noise.host * rng.standard_normal((runs, 1, records + 1, 1))
    level = level + limited[:, None, None] * (host + LIMITED_LAUNCH * rng.standard_normal(shape))
    again += limited[:, None, None] * (host[:, :, -1:] + LIMITED_LAUNCH * rng.standard_normal(later))
    host_launches = HOST_LAUNCH * rng.standard_normal((runs, 1, records + 1, LOOKS, LAUNCHES))
    return Nights(
        medians=level + np.median(step, axis=-1),
        again=again + np.median(step, axis=-1).mean(),
        steps=level[:, :, -2:, :, None] + step[:, :, -2:],
        canaries=canaries + machine[..., None] * noise.canaries,
        host=host_launches + host[..., None],
        limited=limited,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Priors:
    """Priors of the variance between runs of ln(time).

    variance, degrees: of freedom, shape (runs, tests). most: bound of the degrees of Student's t.
    least: smallest standard deviation between runs.
    """

    variance: Logs | float = WIDE.variance
    degrees: Logs | float = WIDE.degrees
    most: float = MAX_DEGREES
    least: float = FLOOR


FIXED = Priors()


def rule(
    medians: Logs, *, alpha: float, tests: int, prior: Priors = FIXED, smallest: float = _SMALLEST
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
    prior: Priors = FIXED,
    smallest: float = _SMALLEST,
) -> tuple[Logs, Logs]:
    """``rule`` with separate launches now (runs, tests, launches) and in records (runs, tests, records, launches)."""
    changes, errors, degrees = _changes(now, history, prior)
    return changes, np.maximum(stats.t.isf(alpha / tests, degrees) * errors, smallest)


def _changes(now: Logs, history: Logs, prior: Priors) -> tuple[Logs, Logs, Logs]:
    """Vectorised ``change_of``: changes and standard errors, shape (runs, tests), and degrees, (runs, 1)."""
    (mean_now, error_now), (means, errors) = map(_summary, (now, history))
    m = means.shape[-1]
    degrees = np.asarray(prior.degrees + m - 1)
    squares = ((means - means.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    s = np.sqrt((prior.degrees * np.asarray(prior.variance) + squares) / degrees)
    s = np.maximum.reduce([s, np.full_like(s, prior.least), error_now, np.sqrt((errors**2).mean(axis=-1))])
    return mean_now - means.mean(axis=-1), s * math.sqrt(1 + 1 / m), np.minimum(degrees, prior.most)


def _summary(launches: Logs) -> tuple[Logs, Logs]:
    """Mean and its standard error over the last axis."""
    return launches.mean(axis=-1), launches.std(axis=-1, ddof=1) / math.sqrt(launches.shape[-1])


def estimated(seen: Nights, shipped: bool = True) -> Priors:
    """The priors of each run, in a storage of its own records only.

    shipped: the machine is of a kind that the shipped prior was fitted to.
    """
    means, errors = _summary(seen.medians)
    runs, _, records = means.shape
    m, launches = records - 1, seen.medians.shape[-1]
    between = means[..., :-1].var(axis=-1, ddof=1) if m > 1 else None
    before, all_ = (errors[..., :-1] ** 2).mean(axis=-1), (errors**2).mean(axis=-1)
    kind = Kind(on_gpu=True)
    variance, degrees = np.maximum(WIDE.variance, launches * all_), np.full(means.shape[:2], float(WIDE.degrees))

    def of(variance: float, number: int) -> LaunchSpread:
        return LaunchSpread(variance=float(variance), degrees=number * (launches - 1), number=launches)

    free = np.flatnonzero(~seen.limited)
    for run in range(runs):
        own = [
            Spread(
                between=float(between[run, test]), degrees=m - 1, launches=of(before[run, test], m), kind=kind, own=True
            )
            for test in free
            if between is not None
        ]
        if shipped or own:
            model = fit(own, SHIPPED.belief(None) if shipped else vague(own), fitted=shipped)
            priors = [model.prior(of(all_[run, test], records), kind, m) for test in free]
            variance[run, free], degrees[run, free] = [p.variance for p in priors], [p.degrees for p in priors]
    return Priors(variance=variance, degrees=degrees)


def run_scales(medians: Logs, prior: Priors) -> Logs:
    """Vectorised ``run_scale`` for slower tests, shape (runs, 1); 1 for fewer than MIN_TESTS tests."""
    runs, tests = medians.shape[:2]
    if tests < MIN_TESTS:
        return np.ones((runs, 1))
    changes, errors, degrees = _changes(medians[..., -1, :], medians[..., :-1, :], prior)
    z = changes / errors
    low, middle, high = np.quantile(z, (0.25, 0.5, 0.75), axis=1, keepdims=True)
    spread = np.minimum(np.minimum(middle, 0) - low, high - middle)
    scales: Logs = np.maximum(1, spread / stats.t.ppf(0.75, degrees))
    return scales


def shift(medians: Logs, *, alpha: float, prior: Priors = FIXED) -> tuple[Logs, Logs]:
    """Vectorised ``common_shift`` without canaries: change and threshold in ln(time), shape (runs,)."""
    means = medians.mean(axis=-1)
    now, history = means[..., -1], means[..., :-1]
    m = history.shape[-1]
    variance = np.median(np.broadcast_to(prior.variance, now.shape), axis=1)
    prior_degrees = np.median(np.broadcast_to(prior.degrees, now.shape), axis=1)
    degrees = prior_degrees + m - 1
    changes = now - history.mean(axis=-1)
    change = np.median(changes, axis=1)
    record_shifts = np.median(history - history.mean(axis=-1, keepdims=True), axis=1)
    s = np.sqrt((prior_degrees * variance + (record_shifts**2).sum(axis=-1)) / degrees)
    scatter = np.median(abs(changes - change[:, None]), axis=1) * 1.2533 * 1.4826 / math.sqrt(changes.shape[1])
    scale = np.maximum(s * math.sqrt(1 + 1 / m), scatter)
    return change, np.maximum(stats.t.isf(alpha, np.minimum(degrees, prior.most)) * scale, _SMALLEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Red:
    """Failures of unchanged runs.

    single: failed tests, shape (runs, tests). common: failed common shift, shape (runs,).
    machine: a slower canary, shape (runs,). explained: change that the canaries explain, in ln(time), shape (runs,).
    """

    single: Flags
    common: Flags
    machine: Flags
    explained: Logs

    @property
    def runs(self) -> Flags:
        red: Flags = self.single.any(axis=1) | self.common | self.machine
        return red


def whole_rule(seen: Nights, shipped: bool = True) -> Red:
    """The complete rule: estimated prior, common shift, canaries, and the host for the tests that it limits.

    shipped: as in ``estimated``. The host may limit at most half of the tests here; if it limited more, it would
    explain the common shift too.
    """
    prior = estimated(seen, shipped)
    return rule_of(seen, prior, run_scales(seen.medians, prior))


def rule_of(seen: Nights, prior: Priors, scales: Logs) -> Red:
    """The complete rule with these priors."""
    medians, alpha = seen.medians, 0.01
    tests = medians.shape[1]
    share = share_of_tests_percent(1, tests)
    medians = medians.copy()
    changes, limits = rule(medians, alpha=alpha * share, tests=tests, prior=prior)
    # A test that looks slower is measured again, and the fastest measurement counts.
    for again in np.moveaxis(seen.again, 2, 0):
        now = medians[..., -1, :]
        faster = (changes > limits) & (again.mean(axis=-1) < now.mean(axis=-1))
        medians[..., -1, :] = np.where(faster[..., None], again, now)
        changes, limits = rule(medians, alpha=alpha * share, tests=tests, prior=prior)
    limits = limits * scales
    if tests >= MIN_TOGETHER:
        common, common_limit = shift(medians, alpha=alpha * SHIFT_SHARE, prior=prior)
    else:
        common, common_limit = np.zeros(len(medians)), np.ones(len(medians))
    canary = largest_canary_change(seen.canaries)
    explained = np.where(common > common_limit, np.minimum(common, canary), 0)
    by_host = np.minimum(changes, slower_host(seen.host)[:, None])
    excused = np.maximum(explained[:, None], np.where(seen.limited, by_host, 0))
    return Red(
        single=changes - excused > limits,
        common=common - explained > common_limit,
        machine=canary > 0,
        explained=explained,
    )


def largest_canary_change(canaries: Logs) -> Logs:
    """Largest change of a slower canary over the looks, shape (runs,)."""
    runs, number, records, looks, launches = canaries.shape
    history = canaries[:, :, :-1].reshape(runs, number, records - 1, looks * launches)
    largest = np.zeros(runs)
    for look in range(looks):
        change, limit = rule_on(canaries[:, :, -1, look], history, alpha=0.01 * MACHINE_SHARE, tests=number * looks)
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
    """The rule with flat canaries."""
    return whole_rule(replace(seen, canaries=np.zeros_like(seen.canaries), host=np.zeros_like(seen.host))).runs


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
    rule: Callable[[Nights], Flags], noise: Noise, *, records: int, runs: int, tests: int = TESTS
) -> tuple[int, int]:
    """Number of unchanged runs that fail, and number of all runs."""
    red = 0
    for seed, batch in enumerate(range(0, runs, _BATCH)):
        found = rule(nights(noise, runs=min(_BATCH, runs - batch), records=records, seed=seed, tests=tests))
        red += int((found.any(axis=1) if found.ndim > 1 else found).sum())
    return red, runs


def finds(
    rule: Callable[[Nights], Flags],
    noise: Noise,
    *,
    records: int,
    runs: int,
    tests: int = TESTS,
    which: slice = FIRST,
) -> Callable[[float], bool]:
    """Return a function of a slowdown of these tests, in %: whether it is found 95 times in 100."""
    flat = nights(noise, runs=runs, records=records, seed=95, tests=tests)
    return lambda percent: _share_found(rule, flat, math.log1p(percent / 100), which) >= 0.95


def smallest_found(found: Callable[[float], bool]) -> float | None:
    """Smallest slowdown, in %, that is ``found``; None if it is over 100 %."""
    low, high = 0.0, math.log(2)
    if not found(100 * math.expm1(high)):
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if found(100 * math.expm1(middle)) else (middle, high)
    return 100 * math.expm1(high)


def _share_found(rule: Callable[[Nights], Flags], flat: Nights, slower: float, tests: slice) -> float:
    medians, steps, again = flat.medians.copy(), flat.steps.copy(), flat.again.copy()
    again[:, tests] += slower
    medians[:, tests, -1] += slower
    steps[:, tests, -1] += slower
    found = rule(replace(flat, medians=medians, steps=steps, again=again))
    return float((found if found.ndim == 1 else found[:, tests].any(axis=1)).mean())


def spread_by(launch: float) -> Noise:
    """Launches with this standard deviation, and nights with 0.8 of it, as measured over NVLink."""
    return Noise(night=0.8 * launch, launch=launch)


# Standard deviations between nights of a test whose launches agree.
AGREEING = (0.0015, 0.0025, 0.005, 0.01)
_QUIET = Noise(night=0.0008, launch=0.001, step=0.003)
_HOST = Noise(night=0.003, launch=0.001, step=0.003, limited=0.25)
NOISES = {
    "as measured over NVLink": _QUIET,
    "as over NVLink, a tenth of the launches 3 % slower": replace(_QUIET, bimodal=0.1),
    "1 % a night": Noise(),
    "heavy tails": Noise(tails=4),
    "1 % a night, tests apart by a factor of 2": Noise(apart=math.log(2)),
    "3 % a night, tests apart by a factor of 2": Noise(night=0.03, apart=math.log(2)),
    "two kinds of host": Noise(night=0.003, second_host=0.05),
    "a quarter of the tests 20 times as noisy": Noise(night=0.003, launch=0.003, noisy=0.25),
    "the host's nights 15 %": replace(_HOST, host=0.15),
    **{f"launches {100 * spread:g} % apart": spread_by(spread) for spread in (0.001, 0.01, 0.1, 0.3, 0.6)},
    "launches 0.1 to 60 % apart, by test": replace(spread_by(0.001), mixed=(1, 600)),
    **{f"nights {100 * n:g} %, launches agree": Noise(night=n, launch=0.001, step=0.003) for n in AGREEING},
    "the machine 3 %, canaries feel it": Noise(night=0.005, machine=0.03),
    "the machine 0.5 %, canaries do not": replace(_QUIET, machine=0.005, canaries=False),
}
# Whether the shipped prior was fitted to this kind of machine.
KINDS = {"NVLink": True, "another": False}
# Simulated runs by number of tests.
RUNS = {4: 400, 40: 200, 200: 50}
SIZES = ((4, 1), (4, 2), (4, 3), (4, 10), (40, 1), (40, 2), (40, 3), (40, 30), (200, 1), (200, 3))
RECORDS = (1, 3, 10)


def _red(seen: Nights, *, shipped: bool, single: bool = False) -> Flags:
    red = whole_rule(seen, shipped)
    return red.single if single else red.runs


def _share(red: int, of: int) -> str:
    return f"{100 * red / of:.1f} (to {100 * stats.binomtest(red, of).proportion_ci(0.95).high:.1f})"


def _row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def _percent(size: float | None) -> str:
    return "over 100" if size is None else f"{size:.1f}"


def _red_table() -> None:
    print("\nRed runs of unchanged code, % (upper end of the 95 % interval)\n")
    _row("noise", "kind of machine", *(f"{tests} tests, {records} rec." for tests, records in SIZES))
    _row(*["---"] * (2 + len(SIZES)))
    for title, noise in NOISES.items():
        for kind, shipped in KINDS.items():
            shares = (
                _share(*red_runs(partial(_red, shipped=shipped), noise, records=records, runs=RUNS[tests], tests=tests))
                for tests, records in SIZES
            )
            _row(title, kind, *shares)


def _found_table() -> None:
    print("\nSmallest slowdown found 95 times in 100, %; 40 tests\n")
    _row("noise", "kind of machine", "of", *(f"{records} records" for records in RECORDS))
    _row(*["---"] * (3 + len(RECORDS)))
    for title, noise in NOISES.items():
        for kind, shipped in KINDS.items():
            for of, which in (("one", FIRST), ("all", ALL)):
                found = partial(_red, shipped=shipped, single=of == "one")
                sizes = (
                    smallest_found(finds(found, noise, records=m, runs=100, tests=40, which=which)) for m in RECORDS
                )
                _row(title, kind, of, *map(_percent, sizes))


def _rules_table() -> None:
    print("\nThe same data judged by rules in common use; 3 records, 100 tests\n")
    others_in_use: dict[str, Callable[[Nights], Flags]] = {
        "this rule": lambda seen: whole_rule(seen).runs,
        "`mean:5%` against the last run": mean_5_percent,
        "7 % on the median against the last run": torchbench_7_percent,
        "Mann-Whitney at 0.05 on steps": mann_whitney,
    }
    _row("noise", "rule", "red runs, %", "smallest slowdown of one test found 95 in 100, %")
    _row(*["---"] * 4)
    for title in ("as measured over NVLink", "1 % a night", "the machine 3 %, canaries feel it"):
        for name, in_use in others_in_use.items():
            red = _share(*red_runs(in_use, NOISES[title], records=3, runs=100 if in_use is mann_whitney else 500))
            single = (lambda seen: whole_rule(seen).single) if name == "this rule" else in_use
            _row(title, name, red, _percent(smallest_found(finds(single, NOISES[title], records=3, runs=100))))


_TABLES = {"red": _red_table, "found": _found_table, "rules": _rules_table, "against": calibration_pairs.tables}

if __name__ == "__main__":
    for name in sys.argv[1:] or _TABLES:
        _TABLES[name]()
