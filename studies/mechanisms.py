"""Each mechanism of the verdict, taken out one at a time: what it finds and prevents, on records and in simulation.

python -m studies.mechanisms      prints the tables; five minutes

Records: every record of baselines/ against each two others, with 2 % planted in one test that the host does not limit,
or in all tests. Simulation: 40 tests with three records (studies/calibration.py), each mechanism in the case that it is
for. Other work that disturbs a run is planted in every record of baselines/.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from fixtures.extras.backtest.command import Replay, Rule, backtest_of
from fixtures.matrix.configs import CONFIGS
from fixtures.records.baselines import History, LaunchTimes, history_of
from fixtures.records.config_comparison import best_of, by_table, disturbance_of
from fixtures.records.measurement import Measurement
from fixtures.records.schema import FullRecord, TestRecord
from fixtures.session.run_record import disturbances
from fixtures.stats.decision import explained_by_others_percent
from fixtures.stats.prior import launches_of, wide
from studies.calibration import NOISES, Logs, Nights, Priors, Red, estimated, nights, rule_of, run_scales
from studies.fitted_prior import read_storage
from tests.builders import launch, measured

_RUNS, _TESTS, _RECORDS, _CORES = 200, 40, 3, 4
# Seconds of a measurement, and of the pause before the third and each later one.
_MEASUREMENT_S, _PAUSE_S = 5, 10
# Parts of a step after which the ranks wait for each other.
_PARTS, _RANKS = 20, 2
# Other work slows what it meets by this much; bursts last so long, in seconds, and are on for a share of the time.
_SLOWS, _BURST_S, _SHARE = 0.05, 20, 0.05


def _plus(seen: Nights, slower: Logs, later: Logs | None = None) -> Nights:
    """Slower tests in the run, shape (runs, tests), and in later measurements, (runs, 1 or tests, later)."""
    medians = seen.medians.copy()
    medians[..., -1, :] += slower[..., None]
    again = seen.again + (slower[..., None] if later is None else later)[..., None]
    return replace(seen, medians=medians, again=again)


def _bursts(seen: Nights) -> Nights:
    """Other work in bursts; the tests to measure again take two measurements' time together."""
    rng = np.random.default_rng(11)
    runs, tests, later, _ = seen.again.shape
    last = _MEASUREMENT_S * tests
    begins = [
        *range(0, last, _MEASUREMENT_S),
        *(last + number * (2 * _MEASUREMENT_S + _PAUSE_S) for number in range(later)),
    ]
    on = np.zeros((runs, begins[-1] + _MEASUREMENT_S), bool)
    on[:, 0] = rng.random(runs) < _SHARE
    for second in range(1, on.shape[1]):
        was, drawn = on[:, second - 1], rng.random(runs)
        on[:, second] = np.where(was, drawn > 1 / _BURST_S, drawn < _SHARE / (1 - _SHARE) / _BURST_S)
    slower = _SLOWS * np.stack([on[:, begin : begin + _MEASUREMENT_S].mean(axis=1) for begin in begins], axis=1)
    return _plus(seen, slower[:, :tests], slower[:, None, tests:])


def _used(seen: Nights) -> Logs:
    """Cores that a neighbour uses from the 31st test on: a tenth to a half of all, shape (runs, tests)."""
    runs, tests = seen.medians.shape[:2]
    used = np.random.default_rng(12).uniform(0.1, 0.5, (runs, 1)) * _CORES
    return np.where(np.arange(tests) < 3 * tests // 4, 0, used)


def _neighbour(seen: Nights) -> Nights:
    """A core of a rank is free by a random share in each part of a step, and each part waits for the slower rank."""
    share = _used(seen)[..., None, None] / _CORES
    taken = 2 * share * np.random.default_rng(13).random((*share.shape[:2], _PARTS, _RANKS))
    return _plus(seen, np.log((1 / (1 - np.minimum(taken, 0.95))).max(axis=-1).mean(axis=-1)))


def _slower_machine(seen: Nights) -> Nights:
    canaries = seen.canaries.copy()
    canaries[:, :, -1] += 0.14
    return _plus(replace(seen, canaries=canaries), np.full(seen.medians.shape[:2], 0.14))


def _explained(seen: Nights) -> Nights:
    """The nights without the slowdown that the neighbour's use of cores explains."""
    explained = np.vectorize(lambda others: explained_by_others_percent(others, _CORES))(_used(seen))
    return _plus(seen, -np.log1p(explained / 100))


# A rule: which runs are red, of these nights and with these priors.
Judge = Callable[[Nights, Priors], Red]


def _rule(seen: Nights, prior: Priors) -> Red:
    return rule_of(seen, prior, run_scales(seen.medians, prior))


def _flat(seen: Nights) -> Nights:
    return replace(seen, canaries=np.zeros_like(seen.canaries), host=np.zeros_like(seen.host))


def _alone(seen: Nights, prior: Priors) -> Red:
    """Without the common shift; what it explains is not known then."""
    red = _rule(seen, prior)
    return replace(red, common=np.zeros_like(red.common))


def _measured(times: int) -> Judge:
    return lambda seen, prior: _rule(replace(seen, again=seen.again[:, :, : times - 1]), prior)


def _next_to_others(seen: Nights, prior: Priors) -> Red:
    return _rule(_explained(seen), prior)


def _without_power(seen: Nights, prior: Priors) -> Red:
    with patch("fixtures.stats.decision.WAITING_POWER", 1.0):
        return _next_to_others(seen, prior)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Simulated runs.

    title: in the table. noise: name in NOISES. planted: slowdown, in %, of the first ``tests``.
    shipped: the shipped prior was fitted to this kind of machine. work: adds other work. rule: with all mechanisms.
    blames: a run that is red for its canaries alone does not count. finds: the planted slowdown is to be found.
    """

    title: str
    noise: str
    planted: float = 0.0
    tests: int = 0
    shipped: bool = True
    work: Callable[[Nights], Nights] = lambda seen: seen
    rule: Judge = _rule
    blames: bool = False
    finds: bool = False


ONE = Case(title="2 % in one test over NVLink: found", noise="as measured over NVLink", planted=2, tests=1, finds=True)
ALL = Case(
    title="1.2 % in all tests over NVLink: red", noise="as measured over NVLink", planted=1.2, tests=_TESTS, finds=True
)
HOSTS = Case(title="two kinds of host: red", noise="two kinds of host")
MACHINE = Case(
    title="a machine that is 15 % slower: the code is blamed",
    noise="as measured over NVLink",
    work=_slower_machine,
    blames=True,
)
HOST = Case(title="the host's nights 15 %: red", noise="the host's nights 15 %")
BURSTS = Case(title="bursts of other work: red", noise="as measured over NVLink", work=_bursts)
NEIGHBOUR = Case(
    title="a neighbour on the host, from the 31st test on: red",
    noise="1 % a night",
    shipped=False,
    work=_neighbour,
    rule=_next_to_others,
    blames=True,  # canaries of a host fail nothing
)


@cache
def _nights(case: Case) -> tuple[Nights, Priors]:
    seen = nights(NOISES[case.noise], runs=_RUNS, records=_RECORDS, seed=7, tests=_TESTS)
    prior = estimated(seen, case.shipped)  # a planted slowdown changes no spread
    slower = np.zeros(seen.medians.shape[:2])
    slower[:, : case.tests] = np.log1p(case.planted / 100)
    return _plus(case.work(seen), slower), prior


def in_simulation(case: Case, rule: Judge | None = None) -> float:
    """Red runs, or those in which the one planted test is found, in %."""
    red = (rule or case.rule)(*_nights(case))
    if case.tests == 1:
        return 100 * float(red.single[:, 0].mean())
    blamed = red.single.any(axis=1) | red.common
    return 100 * float((blamed if case.blames else red.runs).mean())


# Any: as Priors.prior.
def _wide(_: Any, launches: Sequence[float], records: Sequence[Sequence[float]], *__: Any) -> Any:
    return wide(launches_of([*records, launches]).of_one)


# Name -> its place in ``backtest``, and what stands there without it.
ON_RECORDS: dict[str, tuple[str, Any]] = {
    "the fitted prior": ("fixtures.records.baselines.Priors.prior", _wide),
    "the run scale": ("fixtures.extras.backtest.command.run_scale", lambda changes, faster=False: 1.0),
    "the common shift": ("fixtures.extras.backtest.command.common_shift", lambda *_, **__: None),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Replays:
    """Verdicts on records: unchanged ones that are slower, of all; planted ones that are found, of all; replays with
    2 % in all tests that are red, of all."""

    slower: int
    unchanged: int
    found: int
    planted: int
    red: int
    replays: int


def on_records(name: str | None = None) -> Replays:
    """The replays without this mechanism; None: with all."""
    with patch(*ON_RECORDS[name]) if name else nullcontext():
        replays: list[Replay] = [
            replay
            for instance, records in read_storage().items()
            for replay in backtest_of(history_of(records), instance, Rule(records=2, plant_percent=2)).replays
        ]
    tests = [test for replay in replays for test in replay.tests]
    free = [test.planted for test in tests if not test.without_lead and test.planted is not None]
    return Replays(
        slower=sum(test.verdict.word == "slower" for test in tests),
        unchanged=len(tests),
        found=sum(one.word == "slower" for one in free),
        planted=len(free),
        red=sum(replay.planted_shift is not None and replay.planted_shift.fails for replay in replays),
        replays=len(replays),
    )


# Slowdown by other work: by the share of the run that is over, and by a number from 0 to 1 for each launch.
Work = Callable[[float, float], float]
_FROM_THE_MIDDLE: Work = lambda over, _: 1.3 if over > 0.5 else 1.0  # noqa: E731
_BY_LAUNCH: Work = lambda _, drawn: 1 + 0.5 * drawn  # noqa: E731
_NONE: Work = lambda *_: 1.0  # noqa: E731


@dataclass(frozen=True, kw_only=True, slots=True)
class Disturbed:
    """One record next to other work.

    measured: test -> its measurement. timed: the canaries before the first test and after the last.
    history: the other records.
    """

    measured: Mapping[str, Measurement]
    timed: list[tuple[LaunchTimes, LaunchTimes]]
    history: History

    def best(self, *, of_run: bool = True, of_table: bool = True) -> dict[tuple[str, str], str] | None:
        """World and fidelity -> the config that is called best; None if the run is disturbed.

        of_run, of_table: whether the evidence of the run, and within its tables, counts.
        """
        every = list(self.measured.values())
        if of_run and disturbances(self.measured, self.timed, self.history):
            return None
        if of_table and any(disturbance_of(table) for table in by_table(every)):
            return None
        with patch("fixtures.records.config_comparison.disturbance_of", lambda _: None):
            return {(one.world, one.fidelity): one.use for one in best_of(every) if one.use is not None}


def next_to(record: FullRecord, history: History, work: Work) -> Disturbed:
    """A record with other work planted; its tests in a random order."""
    random = Random(record.finished or "")
    tests = [one for one in record.benchmarks if one.extra_info.config in CONFIGS]
    random.shuffle(tests)

    def test_of(info: TestRecord, over: float) -> Measurement:
        launches = tuple(
            replace(
                launch(time * work(over, random.random())),
                gradient_error=info.gradient_error or 0.0,
                host_lead_s=None if info.host_lead_ms is None else info.host_lead_ms / 1e3,
            )
            for time in info.launch_medians_s
        )
        return measured(str(info.config), 1, world=str(info.world), launches=launches)

    return Disturbed(
        measured={one.fullname: test_of(one.extra_info, n / len(tests)) for n, one in enumerate(tests)},
        timed=[
            (
                {name: one.before_s for name, one in canaries.canaries.items()},
                {name: [s * work(1, random.random()) for s in one.after_s] for name, one in canaries.canaries.items()},
            )
            for canaries in record.canaries.values()
        ],
        history=history,
    )


def wrong_best(work: Work, *, first: bool, of_run: bool = True, of_table: bool = True) -> tuple[int, int]:
    """Records of which a config is called best that is over 1 % slower than another one on a quiet machine, of all.

    first: no other record is known.
    """
    wrong = number = 0
    for records in read_storage().values():
        for file, record in records.items():
            others = {} if first else history_of({name: one for name, one in records.items() if name != file})
            quiet, busy = (next_to(record, others, one) for one in (_NONE, work))
            step_s = {(m.world.name, m.config.name): m.seconds_per_step for m in quiet.measured.values()}
            best, named = quiet.best(), busy.best(of_run=of_run, of_table=of_table) or {}
            number += 1
            wrong += best is None or any(
                step_s[place[0], config] > 1.01 * step_s[place[0], best.get(place, config)]
                for place, config in named.items()
            )
    return wrong, number


# Mechanism -> its case, and the rule without it.
SIMULATED: dict[str, tuple[Case, Judge]] = {
    "the fitted prior": (ONE, lambda seen, prior: _rule(seen, replace(prior, variance=1e-4, degrees=4.0))),
    "the run scale": (HOSTS, lambda seen, prior: rule_of(seen, prior, np.ones((1, 1)))),
    "the common shift": (ALL, _alone),
    "the canaries": (MACHINE, lambda seen, prior: _rule(_flat(seen), prior)),
    "the host's canary": (HOST, lambda seen, prior: _rule(_flat(seen), prior)),
    "measuring again": (BURSTS, _measured(1)),
    "the third and fourth measurement": (BURSTS, _measured(2)),
    "the fourth measurement": (BURSTS, _measured(3)),
    "other work on the host": (NEIGHBOUR, _rule),
    "its power of 1.5": (NEIGHBOUR, _without_power),
}
# Evidence -> the other work, whether this is the first run, and which evidence is left.
DISTURBED: dict[str, tuple[Work, bool, dict[str, bool]]] = {
    "canaries, and launches next to the records'": (_FROM_THE_MIDDLE, False, {"of_run": False}),
    "spread and limits in a table": (_BY_LAUNCH, True, {"of_table": False}),
}


def _print() -> None:
    replays = on_records()
    print("| without | on records | simulated case | with it | without |\n|---|---|---|---|---|")
    for name, (case, rule) in SIMULATED.items():
        cell = "-"
        if name in ON_RECORDS:
            one = on_records(name)
            cell = (
                f"2 % in one test: {replays.found} to {one.found} of {one.planted}; in all: {replays.red} to {one.red} "
                f"of {one.replays}; unchanged slower: {replays.slower} to {one.slower} of {one.unchanged}"
            )
        shares = in_simulation(case), in_simulation(case, rule)
        print(f"| {name} | {cell} | {case.title} | {shares[0]:.1f} % | {shares[1]:.1f} % |", flush=True)
    for name, (work, first, left) in DISTURBED.items():
        (wrong, of), (more, _) = wrong_best(work, first=first), wrong_best(work, first=first, **left)
        print(
            f"| evidence of a disturbance: {name} | wrong best config: {wrong} to {more} of {of} | - | - | - |",
            flush=True,
        )


if __name__ == "__main__":
    _print()
