"""Simulation of --against, for docs/studies/accuracy.md: false alarms, time to a decision and power.

python -m studies.calibration_pairs              the simulated tables alone, which ``studies.calibration`` prints too
python -m studies.calibration_pairs baselines    the parts of the noise in these records

ln(step time) = process (the same in all launches of one set of ranks, for all tests) + launch. A run judges its tests
one after another, as ``compare`` does: the first launches of a test are in the live ranks, the further ones in new
ranks. To add a noise, extend NOISES; to add a design, DESIGNS.
"""

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fixtures.stats.thresholds import TRIMMED

Logs = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]

GOAL = 0.01
# Seconds on two H100s: pytest and the canaries, the start of all sets of a round, a launch in a live set.
BEGIN_S, START_S, LAUNCH_S = 8.0, 8.0, 2.2
LIMIT_S = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of ln(median of a launch), the same for both sides and independent.

    process: standard deviation of the effect of a set of ranks on all its launches. launch: of a single launch.
    outliers: share of sets that are slower by 4 to 12 %. outlying_launches: share of launches that are slower by 8 %.
    """

    process: float
    launch: float
    outliers: float = 0.0
    outlying_launches: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The options of --against and alpha.

    first: sets a side that live at the same time. in_a_set: launches of a test in each. trimmed: one of so many sets of
    a side is left out at each end; 0 for none. tests: number of tests by which alpha is divided.
    """

    first: int = 3
    in_a_set: int = 1
    max_pairs: int = 12
    trimmed: int = TRIMMED
    min_slowdown_percent: float = 1.0
    alpha: float = GOAL
    tests: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """Results at the end of the runs, shape (runs, tests). pairs: number of sets a side of each test."""

    slower: Flags
    ok: Flags
    pairs: Counts

    @property
    def red(self) -> int:
        """Number of runs in which any test is slower."""
        return int(self.slower.any(axis=1).sum())

    def seconds(self, rule: Rule) -> Logs:
        """Time of each run of one test."""
        rounds = np.ceil(self.pairs[:, 0] / rule.first)
        return np.asarray(BEGIN_S + rounds * START_S + 2 * self.pairs[:, 0] * rule.in_a_set * LAUNCH_S)


def estimates(own: Logs, other: Logs, trimmed: int) -> tuple[Logs, Logs, Logs]:
    """Change, its standard error and degrees of freedom over the last axis: vectorised ``judge_sides``."""
    n = own.shape[-1]
    g = n // trimmed if trimmed else 0
    h = n - 2 * g
    means, variances = [], []
    for side in (own, other):
        ordered = np.sort(side, axis=-1)
        means.append(ordered[..., g : n - g].mean(axis=-1))
        winsorized = np.clip(ordered, ordered[..., [g]], ordered[..., [n - g - 1]])
        squares = winsorized.var(axis=-1) * n
        variances.append(squares / (h * (h - 1)) if h > 1 else np.full_like(squares, np.inf))
    variance = variances[0] + variances[1]
    with np.errstate(invalid="ignore"):
        degrees = np.nan_to_num(variance**2 * (h - 1) / (variances[0] ** 2 + variances[1] ** 2), nan=1.0)
    return means[0] - means[1], np.sqrt(variance), np.maximum(degrees, 1.0)


def judge(noise: Noise, rule: Rule, *, runs: int, seed: int = 0, slower: float = 0.0) -> Judged:
    """Judge simulated runs. slower: slowdown of every test on this side, in ln(time)."""
    rng = np.random.default_rng(seed)

    def sets() -> Logs:
        shape = (runs, 2, rule.first)
        outlying = rng.uniform(0.04, 0.12, shape) * (rng.random(shape) < noise.outliers)
        return np.asarray(noise.process * rng.standard_normal(shape) + outlying)

    def launches(live: Logs) -> Logs:
        shape = (*live.shape, rule.in_a_set)
        each = noise.launch * rng.standard_normal(shape) + 0.08 * (rng.random(shape) < noise.outlying_launches)
        measured = live + np.median(each, axis=-1)
        measured[:, 0] += slower
        return np.asarray(measured)

    live = sets()
    drawn = []
    for _ in range(rule.tests):
        rounds = [launches(live)]
        after = [live]
        while len(rounds) * rule.first < rule.max_pairs:
            after.append(sets())
            rounds.append(launches(after[-1]))
        drawn.append(np.concatenate(rounds, axis=-1)[..., : rule.max_pairs])
        result = judged(drawn[-1][:, None], rule)
        last = (result.pairs[:, 0] - 1) // rule.first
        live = np.stack(after)[last, np.arange(runs)]
    return judged(np.stack(drawn, axis=1), rule)


def judged(logs: Logs, rule: Rule) -> Judged:
    """Vectorised ``compare``; logs: of shape (runs, tests, 2 sides, max_pairs)."""
    looks = [min(n, rule.max_pairs) for n in range(rule.first, rule.max_pairs + rule.first, rule.first)]
    least = math.log1p(rule.min_slowdown_percent / 100)
    shape = logs.shape[:2]
    slower, ok, open_ = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool)
    pairs = np.full(shape, rule.max_pairs)
    for n in looks:
        change, error, degrees = estimates(logs[:, :, 0, :n], logs[:, :, 1, :n], rule.trimmed)
        threshold = np.maximum(special.stdtrit(degrees, 1 - rule.alpha / rule.tests / len(looks)) * error, least)
        changed = abs(change) > threshold
        now_ok = ~changed & (abs(change) + special.stdtrit(degrees, 0.975) * error < least)
        slower |= open_ & changed & (change > 0)
        ok |= open_ & now_ok
        pairs[open_ & (changed | now_ok)] = n
        open_ &= ~(changed | now_ok)
    return Judged(slower=slower, ok=ok, pairs=pairs)


def smallest_found(noise: Noise, rule: Rule, *, runs: int) -> float:
    """Smallest slowdown of a test, in %, that is found 95 times in 100."""
    low, high = 0.0, math.log(2)
    while high - low > 0.0002:
        middle = (low + high) / 2
        found = judge(noise, rule, runs=runs, slower=middle).slower.mean() >= 0.95
        low, high = (low, middle) if found else (middle, high)
    return 100 * math.expm1(high)


_PARTS = ((0.05, 0.05), (0.2, 0.1), (0.3, 0.1), (0.4, 0.2), (0.1, 0.4), (1, 0.3), (0.3, 1), (3, 1))
NOISES = {
    **{f"{p:g} % a process, {n:g} % a launch": Noise(process=p / 100, launch=n / 100) for p, n in _PARTS},
    **{
        f"0.2 %, 0.1 %, {100 * share:g} % of the processes outlying": Noise(process=0.002, launch=0.001, outliers=share)
        for share in (0.05, 0.1, 0.2)
    },
    "0.2 %, 0.1 %, 5 % of the launches outlying": Noise(process=0.002, launch=0.001, outlying_launches=0.05),
    "1 %, 0.3 %, 5 % of the processes outlying": Noise(process=0.01, launch=0.003, outliers=0.05),
}
DESIGNS = {
    "the rule": Rule(),
    "2 launches a set": Rule(in_a_set=2),
    "3 launches a set": Rule(in_a_set=3),
    "2 sets a side": Rule(first=2),
    "4 sets a side": Rule(first=4),
    "nothing trimmed": Rule(trimmed=0),
}
NUMBERS_OF_TESTS = (1, 4, 10, 100)


def _share(red: int, of: int) -> str:
    interval = stats.binomtest(red, of).proportion_ci(0.95)
    return f"{100 * red / of:.2f} ({100 * interval.low:.2f} to {100 * interval.high:.2f})"


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _head(*cells: object) -> None:
    _row("noise", *cells)
    _row(*["---"] * (1 + len(cells)))


def _in_time(noise: Noise, rule: Rule, runs: int) -> str:
    """Shares, in %, that are ok, and slower if slower by 3 %, within LIMIT_S; mean seconds of an unchanged test."""
    same, changed = (judge(noise, rule, runs=runs, slower=slower) for slower in (0.0, math.log(1.03)))
    ok = same.ok[:, 0] & (same.seconds(rule) <= LIMIT_S)
    found = changed.slower[:, 0] & (changed.seconds(rule) <= LIMIT_S)
    return f"{100 * ok.mean():.1f}; {100 * found.mean():.0f}; {same.seconds(rule).mean():.0f} s"


def tables(runs: int = 10_000) -> None:
    """Print the tables: red runs, decisions in time, and power."""
    print("\n--against: red runs of unchanged code, % (95 % interval), by number of tests\n")
    _head(*NUMBERS_OF_TESTS)
    for title, noise in NOISES.items():
        red = (judge(noise, Rule(tests=tests), runs=runs).red for tests in NUMBERS_OF_TESTS)
        _row(title, *(_share(count, runs) for count in red))
    print(f"\nWithin {LIMIT_S:g} s: unchanged and ok, %; 3 % slower and found, %; mean time of an unchanged test\n")
    _head(*DESIGNS)
    for title, noise in NOISES.items():
        _row(title, *(_in_time(noise, rule, runs) for rule in DESIGNS.values()))
    print("\nSmallest slowdown found 95 times in 100, %, by number of tests\n")
    _head(1, 100)
    for title, noise in NOISES.items():
        _row(title, *(f"{smallest_found(noise, Rule(tests=tests), runs=runs // tests):.2f}" for tests in (1, 100)))


def parts_percent(file: Path) -> tuple[float, float] | None:
    """Standard deviations of a process and of a launch, in %, over the tests of a record, by medians.

    Launch j of all tests is in the same set of ranks. None for fewer than ten tests of three launches.
    """
    infos = [benchmark["extra_info"] for benchmark in json.loads(file.read_text())["benchmarks"]]
    logs = np.log([info["launch_medians_s"] for info in infos if len(info.get("launch_medians_s", ())) == 3] or [[1]])
    if len(logs) < 10:
        return None
    deviations = logs - logs.mean(axis=1, keepdims=True)
    process = np.median(deviations, axis=0)
    launch = np.median(abs(deviations - process)) / stats.norm.ppf(0.75) * math.sqrt(3 / 2)
    return 100 * float(process.std(ddof=1)), 100 * float(launch)


def measured(folder: Path) -> None:
    """Print the parts of each instance: root mean squares over its records."""
    _row("instance", "records", "process", "launch")
    _row(*["---"] * 4)
    for instance in sorted(folder.iterdir()):
        parts = [found for file in sorted(instance.glob("*.json")) if (found := parts_percent(file))]
        if parts:
            _row(instance.name, len(parts), *(f"{value:.2f}" for value in np.sqrt(np.square(parts).mean(axis=0))))


if __name__ == "__main__":
    measured(Path(sys.argv[1])) if len(sys.argv) > 1 else tables()
