"""The tables of docs/calibration.md: how often the rule calls an unchanged run red, and what it finds, by simulation.

python -m tests.calibration          false alarms, then the smallest slowdown found 95 times in 100, then other rules,
                                     then --against (tests/calibration_pairs.py)

Log step time = night of the machine (all tests alike) + night of the test + launch + step, all normal; 2 % of the steps
take half as long again. Canaries are slower with the machine's night, and have a launch noise of their own. So is the
host's, with the nights of the host, which slow the tests that it limits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.judge.common_shift import SHARE
from fixtures.judge.verdict import LIKE, PRIOR_DEGREES, PRIOR_SPREAD, TESTS_LIKE, TESTS_OF_A_PRIOR
from tests import calibration_pairs

Logs = NDArray[np.float64]
Found = NDArray[np.bool_]

TESTS, LAUNCHES, STEPS, CANARIES, LOOKS = 100, 3, 20, 5, 2
# Which tests are slower: one that nothing but its night moves, one that the host limits where it limits some, all.
FIRST, LAST, ALL = slice(0, 1), slice(-1, None), slice(None)
LOUDER = 20
# Of the host's canary, the mean over the ranks, and of the tests that the host limits: noise of a launch.
HOST_LAUNCH, LIMITED_LAUNCH = 0.08, 0.03
_SMALLEST = math.log(1.01)


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Standard deviations of the logarithm; of the machine's change during a run, its size.

    apart: of the logarithm of how much noisier one test's night is than another's. bimodal: share of launches that are
    3 % slower. canaries: whether the machine's nights and changes are such that canaries feel them. midway:
    how much slower the machine becomes after a quarter of the tests of the run. loud: share of the tests, the last
    ones, whose nights and launches are LOUDER times as noisy. host: of the host's nights; limited: share of the tests,
    the last ones, that it limits.
    """

    machine: float = 0.0
    night: float = 0.01
    launch: float = 0.005
    step: float = 0.03
    apart: float = 0.0
    bimodal: float = 0.0
    canaries: bool = True
    midway: float = 0.0
    loud: float = 0.0
    host: float = 0.0
    limited: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Nights:
    """Of several runs and their records, the run itself last.

    medians: of launches, shape (runs, tests, records + 1, launches). steps: of the last record and the run, shape
    (runs, tests, 2, launches, steps). canaries: shape (runs, canaries, records + 1, looks, launches). host: of its own
    canary, shape (runs, 1, records + 1, looks, launches). limited: whether the host limits a test, shape (tests,).
    """

    medians: Logs
    steps: Logs
    canaries: Logs
    host: Logs
    limited: Found


def nights(noise: Noise, *, runs: int, records: int, seed: int, tests: int = TESTS) -> Nights:
    """Nights on which no code changes."""
    rng = np.random.default_rng([seed, records])
    shape = (runs, tests, records + 1, LAUNCHES)
    step = noise.step * rng.standard_normal((*shape, STEPS), dtype=np.float32)
    step += np.float32(math.log(1.5)) * (rng.random(step.shape, dtype=np.float32) < 0.02)
    machine = noise.machine * rng.standard_normal((runs, 1, records + 1, 1))
    apart = np.exp(noise.apart * rng.standard_normal((runs, tests, 1, 1)))
    louder = np.where(np.arange(tests) < tests * (1 - noise.loud), 1, LOUDER)[:, None, None]
    level = machine + noise.night * louder * apart * rng.standard_normal((*shape[:-1], 1))
    level = level + noise.launch * louder * rng.standard_normal(shape) + 0.03 * (rng.random(shape) < noise.bimodal)
    canaries = noise.launch * rng.standard_normal((runs, CANARIES, records + 1, LOOKS, LAUNCHES))
    level[:, tests // 4 :, -1] += noise.midway
    canaries[:, :, -1, 1:] += noise.midway * noise.canaries
    limited = np.arange(tests) >= tests * (1 - noise.limited)
    host = noise.host * rng.standard_normal((runs, 1, records + 1, 1))
    level = level + limited[:, None, None] * (host + LIMITED_LAUNCH * rng.standard_normal(shape))
    of_host = HOST_LAUNCH * rng.standard_normal((runs, 1, records + 1, LOOKS, LAUNCHES))
    return Nights(
        medians=level + np.median(step, axis=-1),
        steps=level[:, :, -2:, :, None] + step[:, :, -2:],
        canaries=canaries + machine[..., None] * noise.canaries,
        host=of_host + host[..., None],
        limited=limited,
    )


def rule(
    medians: Logs, *, alpha: float, tests: int, prior: float | Logs = PRIOR_SPREAD, smallest: float = _SMALLEST
) -> tuple[Logs, Logs]:
    """``judge`` for all tests at once: changes and thresholds, of the logarithm, shape (runs, tests)."""
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
    """The same of launches now, shape (runs, tests, launches), and in records, (runs, tests, records, launches)."""
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


def prior_of(medians: Logs) -> float | Logs:
    """``prior_spread_for`` each test of each run, shape (runs, tests)."""
    means, errors = _summary(medians)
    if means.shape[-1] == 2 or means.shape[1] < TESTS_OF_A_PRIOR:
        return PRIOR_SPREAD
    spread = np.sqrt((errors[..., :-1] ** 2).mean(axis=-1))
    own = np.sqrt((errors**2).mean(axis=-1))
    quietest_first = np.argsort(spread, axis=1)
    variances = np.take_along_axis(means[..., :-1].var(axis=-1, ddof=1), quietest_first, axis=1)
    number = (spread[:, None, :] <= LIKE * own[:, :, None]).sum(axis=-1).clip(min=min(TESTS_LIKE, spread.shape[1]))
    priors = np.empty_like(own)
    for run, test in np.ndindex(own.shape):
        like = np.sort(variances[run, : number[run, test]])
        priors[run, test] = like[: len(like) - max(1, len(like) // 20)].mean()
    spreads: Logs = np.sqrt(np.maximum(PRIOR_SPREAD**2, priors))
    return spreads


def shift(medians: Logs, *, alpha: float) -> tuple[Logs, Logs]:
    """``common_shift`` without canaries: change and threshold, of the logarithm, shape (runs,)."""
    means = medians.mean(axis=-1)
    now, history = means[..., -1], means[..., :-1]
    m = history.shape[-1]
    degrees = PRIOR_DEGREES + m - 1
    changes = now - history.mean(axis=-1)
    change = np.median(changes, axis=1)
    of_records = np.median(history - history.mean(axis=-1, keepdims=True), axis=1)
    s = np.sqrt((PRIOR_DEGREES * PRIOR_SPREAD**2 + (of_records**2).sum(axis=-1)) / degrees)
    scatter = np.median(abs(changes - change[:, None]), axis=1) * 1.2533 * 1.4826 / math.sqrt(changes.shape[1])
    scale = np.maximum(s * math.sqrt(1 + 1 / m), scatter)
    return change, np.maximum(stats.t.isf(alpha, degrees) * scale, _SMALLEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Red:
    """Shape (runs, tests): single; shape (runs,): common, and explained, of the logarithm."""

    single: Found
    common: Found
    explained: Logs

    @property
    def runs(self) -> Found:
        red: Found = self.single.any(axis=1) | self.common
        return red


def whole_rule(seen: Nights) -> Red:
    """All that makes a run red, as it is: prior of like tests, common shift, canaries, the host for tests that it
    limits. For half of the tests at most: of more the host explains the common shift too."""
    medians, alpha = seen.medians, 0.01
    changes, limits = rule(medians, alpha=alpha * (1 - SHARE), tests=medians.shape[1], prior=prior_of(medians))
    common, common_limit = shift(medians, alpha=alpha * SHARE)
    explained = np.where(common > common_limit, np.minimum(common, loudest(seen.canaries)), 0)
    by_host = np.minimum(changes, slower_host(seen.host)[:, None])
    of_test = np.maximum(explained[:, None], np.where(seen.limited, by_host, 0))
    return Red(single=changes - of_test > limits, common=common - explained > common_limit, explained=explained)


def loudest(canaries: Logs) -> Logs:
    """The largest change of a canary that is slower in a look, shape (runs,)."""
    runs, number, records, looks, launches = canaries.shape
    history = canaries[:, :, :-1].reshape(runs, number, records - 1, looks * launches)
    found = np.zeros(runs)
    for look in range(looks):
        change, limit = rule_on(canaries[:, :, -1, look], history, alpha=0.05, tests=number * looks)
        found = np.maximum(found, np.where(change > limit, change, 0).max(axis=1))
    return found


def slower_host(host: Logs) -> Logs:
    """The change of the host where it is slower in every look, in the one where it changed least, shape (runs,)."""
    runs, _, records, looks, launches = host.shape
    history = host[:, :, :-1].reshape(runs, 1, records - 1, looks * launches)
    looked = [rule_on(host[:, :, -1, look], history, alpha=0.05, tests=1) for look in range(looks)]
    changes, limits = (np.stack(found)[:, :, 0] for found in zip(*looked, strict=True))
    least = changes.argmin(axis=0), np.arange(runs)
    slower: Logs = np.where(changes[least] > limits[least], changes[least], 0)
    return slower


def without_canaries(seen: Nights) -> Found:
    """Prior of like tests and common shift, with flat canaries."""
    return whole_rule(replace(seen, canaries=np.zeros_like(seen.canaries), host=np.zeros_like(seen.host))).runs


def first_rule(seen: Nights) -> Found:
    """A prior of 1 % for every instance, no common shift: the rule before this page; shape (runs, tests)."""
    changes, limits = rule(seen.medians, alpha=0.01, tests=seen.medians.shape[1])
    found: Found = changes > limits
    return found


def mean_5_percent(seen: Nights) -> Found:
    """pytest-benchmark's --benchmark-compare-fail=mean:5%, against the last run."""
    means = np.exp(seen.steps).mean(axis=(-1, -2))
    found: Found = means[..., 1] > 1.05 * means[..., 0]
    return found


def torchbench_7_percent(seen: Nights) -> Found:
    """TorchBench's 7 % on one number, here the median of all steps, against the last run."""
    medians = np.median(seen.steps.reshape(*seen.steps.shape[:3], -1), axis=-1)
    found: Found = medians[..., 1] - medians[..., 0] > math.log(1.07)
    return found


def mann_whitney(seen: Nights) -> Found:
    """Mann-Whitney on the steps at 0.05, as benchstat does on its samples; slower, of a two-sided test."""
    steps = seen.steps.reshape(*seen.steps.shape[:3], -1)
    result = stats.mannwhitneyu(steps[:, :, 1], steps[:, :, 0], axis=-1, method="asymptotic")
    slower: Found = (result.pvalue < 0.05) & (np.median(steps[:, :, 1], axis=-1) > np.median(steps[:, :, 0], axis=-1))
    return slower


def red_runs(
    rule: Callable[[Nights], Found], noise: Noise, *, records: int, batches: int, runs: int
) -> tuple[int, int]:
    """How many unchanged runs are red, of how many."""
    red = 0
    for seed in range(batches):
        found = rule(nights(noise, runs=runs, records=records, seed=seed))
        red += int((found.any(axis=1) if found.ndim > 1 else found).sum())
    return red, batches * runs


def smallest_found(
    rule: Callable[[Nights], Found], noise: Noise, *, records: int, runs: int, which: slice = FIRST
) -> float | None:
    """The smallest slowdown in %, of one test of each run or of all, that is found 95 times in 100; None over 100 %."""
    flat = nights(noise, runs=runs, records=records, seed=95)
    low, high = 0.0, math.log(2)
    if not _share_found(rule, flat, high, which) >= 0.95:
        return None
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (low, middle) if _share_found(rule, flat, middle, which) >= 0.95 else (middle, high)
    return 100 * math.expm1(high)


def _share_found(rule: Callable[[Nights], Found], flat: Nights, slower: float, tests: slice) -> float:
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
    "0.3 % a night, launches too, a quarter of the tests 20 times": Noise(night=0.003, launch=0.003, loud=0.25),
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
    rules: dict[str, Callable[[Nights], Found]] = {
        "a prior of 1 % for all": first_rule,
        "prior of like tests, common shift": without_canaries,
        "and canaries: the rule": lambda seen: whole_rule(seen).runs,
    }
    print("\nRed runs of unchanged code, % (95 % interval); 100 tests\n")
    _row("noise", "rule", *(f"{records} records" for records in RECORDS))
    _row(*["---"] * 5)
    for title, noise in NOISES.items():
        for name, one in rules.items():
            _row(title, name, *(_share(*red_runs(one, noise, records=m, batches=20, runs=100)) for m in RECORDS))
    print("\nSmallest slowdown found 95 times in 100, %: of one test of 100, and of all\n")
    _row("noise", "of", *(f"{records} records" for records in RECORDS))
    _row(*["---"] * 5)
    for title, noise in {"0.3 % a night": Noise(night=0.003, launch=0.002, step=0.01), **NOISES}.items():
        one_test = lambda seen: whole_rule(seen).single  # noqa: E731
        of_all = lambda seen: whole_rule(seen).runs  # noqa: E731
        _row(
            title,
            "one, a prior of 1 %",
            *(_percent(smallest_found(first_rule, noise, records=m, runs=200)) for m in RECORDS),
        )
        _row(title, "one", *(_percent(smallest_found(one_test, noise, records=m, runs=200)) for m in RECORDS))
        _row(title, "all", *(_percent(smallest_found(of_all, noise, records=m, runs=200, which=ALL)) for m in RECORDS))
        if noise.limited:
            found = (smallest_found(one_test, noise, records=m, runs=200, which=LAST) for m in RECORDS)
            _row(title, "one that the host limits", *map(_percent, found))
    print("\nThe same data judged by what people use now; 3 records\n")
    others: dict[str, Callable[[Nights], Found]] = {
        "this rule": lambda seen: whole_rule(seen).runs,
        "`mean:5%` against the last run": mean_5_percent,
        "7 % on the median against the last run": torchbench_7_percent,
        "Mann-Whitney at 0.05 on steps": mann_whitney,
    }
    _row("noise", "rule", "red runs, %", "smallest slowdown of one test found 95 in 100, %")
    _row(*["---"] * 4)
    for title in ("1 % a night", "3 % a night", "the machine 3 %, canaries feel it"):
        for name, one in others.items():
            few = 1 if one is mann_whitney else 20
            red = _share(*red_runs(one, NOISES[title], records=3, batches=few, runs=100))
            finds = (lambda seen: whole_rule(seen).single) if name == "this rule" else one
            runs = 100 if one is mann_whitney else 200
            _row(title, name, red, _percent(smallest_found(finds, NOISES[title], records=3, runs=runs)))


if __name__ == "__main__":
    _tables()
    calibration_pairs.tables()
