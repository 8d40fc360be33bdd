"""Calibration of the verdict on measured runs: noise by source, planted slowdowns found, and false alarms.

python -m studies.calibration_measured RUN.json...  from --benchmark-json or baselines/; see studies.planted for plants

Prints the noise by its source, the planted slowdowns that ``--against`` and other rules found, and the number of tests
that each rule calls slower between two runs of the same code. Step, launch and run are standard deviations in % of the
median step: of a step within its launch (from the median absolute deviation), of a launch's median around the mean of
its run, and of a run's mean around the means of the other runs. To add a rule to compare with, extend RIVALS.
"""

import json
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
from scipy import stats

from fixtures.records.baselines import recorded_canaries
from fixtures.records.differences import software_differences
from fixtures.records.files import checked_run
from fixtures.records.schema import EnvironmentRecord
from fixtures.session.canaries import CanaryTimes, canary_changes
from fixtures.stats.decision import ComparedTest, Shift, common_shift, share_of_tests_percent
from fixtures.stats.verdict import judge
from studies.calibration import TESTS
from studies.planted import Plant, plant_of

# Standard deviation over median absolute deviation of a normal distribution.
_SIGMA_OVER_MAD = 1.4826
_NAME = re.compile(r"\w+\[(?P<workload>[\w.]+?)-(?P<world>\d+[cg]pu)-(?P<config>.+)\]")


def noise(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float, float | None]]:
    """Yield test, step, launch and run, in %; the last is None if only one run has the test. Any: JSON."""
    by_test: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        for benchmark in run["benchmarks"]:
            by_test[benchmark["name"]].append(benchmark)
    for name, benchmarks in by_test.items():
        steps = [_step(benchmark) for benchmark in benchmarks]
        logs = [[math.log(s) for s in benchmark["extra_info"]["launch_medians_s"]] for benchmark in benchmarks]
        launches = [statistics.stdev(run_logs) for run_logs in logs if len(run_logs) > 1]
        means = [statistics.fmean(run_logs) for run_logs in logs]
        yield (
            name,
            100 * statistics.median(steps),
            100 * _root_mean_square(launches) if launches else math.nan,
            100 * statistics.stdev(means) if len(means) > 1 else None,
        )


def _step(benchmark: Mapping[str, Any]) -> float:
    """Standard deviation of ln(step time) within a launch."""
    data, info = iter(benchmark["stats"]["data"]), benchmark["extra_info"]
    deviations = []
    for measured in info["launch_steps"]:
        steps = [math.log(next(data)) for _ in range(measured)]
        middle = statistics.median(steps)
        deviations += [abs(step - middle) for step in steps]
    return _SIGMA_OVER_MAD * statistics.median(deviations)


def _root_mean_square(values: Iterable[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantResult:
    """Verdicts of ``--against`` and the other rules on the copies of one test.

    percent: the plant in % of a step, if known beforehand.
    words, changes_percent, pairs: one for each copy.
    rivals: rule -> number of copies it calls slower; empty if a record lacks the steps of the other build.
    """

    cell: str
    planted: str
    percent: float | None
    words: list[str]
    changes_percent: list[float]
    pairs: list[int]
    rivals: dict[str, int]


def plant_results(runs: Sequence[Mapping[str, Any]]) -> Iterator[PlantResult]:
    """Yield the results, sorted by world and config, interconnect, and plant."""
    copies: dict[tuple[str, Plant], list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        for benchmark in run["benchmarks"]:
            name, info = _NAME.fullmatch(benchmark["name"]), benchmark["extra_info"]
            plant = plant_of(name["workload"]) if name else None
            if name and plant and "against" in info:
                copies[f"{name['world']}-{name['config']} {info['interconnect']}", plant].append(benchmark)
    for (cell, plant), benchmarks in sorted(copies.items(), key=lambda copy: copy[0]):
        infos = [benchmark["extra_info"] for benchmark in benchmarks]
        step_s = statistics.median(s for info in infos for s in info["against"]["launch_medians_s"])
        yield PlantResult(
            cell=cell,
            planted=plant.name,
            percent=100 * plant.size / 1e6 / step_s if plant.unit == "us" else None,
            words=[info["verdict"]["word"] for info in infos],
            changes_percent=[info["against"]["change_percent"] for info in infos],
            pairs=[info["against"]["pairs"] for info in infos],
            rivals={name: sum(rule(_other_build(b), b) for b in benchmarks) for name, rule in RIVALS.items()}
            if all("step_s" in info["against"] for info in infos)
            else {},
        )


def _other_build(benchmark: Mapping[str, Any]) -> Mapping[str, Any]:
    """Measurement of the other build, in the form of a benchmark."""
    against = benchmark["extra_info"]["against"]
    return {
        "stats": {"data": against["step_s"]},
        "extra_info": {"launch_medians_s": against["launch_medians_s"], "launch_steps": against["launch_steps"]},
    }


def _is_slower(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """The suite's verdict with one record as history, in a run of TESTS tests."""
    share = share_of_tests_percent(1, TESTS)
    verdict = judge(_medians(now), [_medians(before)], tests=TESTS, false_alarms_percent=share)
    return verdict.word == "slower"


def _is_slower_by_mean(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    then, today = _steps(before), _steps(now)
    return statistics.fmean(today) > 1.05 * statistics.fmean(then)


def _is_slower_by_7_percent(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    then, today = _steps(before), _steps(now)
    return statistics.median(today) > 1.07 * statistics.median(then)


def _is_slower_by_mann_whitney(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Two-sided at 0.05, as in benchstat."""
    then, today = _steps(before), _steps(now)
    differs = float(stats.mannwhitneyu(today, then).pvalue) < 0.05
    return differs and statistics.median(today) > statistics.median(then)


def _steps(benchmark: Mapping[str, Any]) -> list[float]:
    """Steps of all launches."""
    steps: list[float] = benchmark["stats"]["data"]
    return steps


Rule = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]
RIVALS: dict[str, Rule] = {
    "`mean:5%`": _is_slower_by_mean,
    "7 % on the median": _is_slower_by_7_percent,
    "Mann-Whitney at 0.05": _is_slower_by_mann_whitney,
}
RULES: dict[str, Rule] = {"this rule": _is_slower, **RIVALS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two runs of one instance, the older one as the record of the newer one. Any: JSON.

    machine: ``the same`` or ``another``.
    tests: (then, now) of each test that both runs have.
    """

    instance: str
    machine: str
    before: Mapping[str, Any]
    now: Mapping[str, Any]
    tests: list[tuple[Mapping[str, Any], Mapping[str, Any]]]


def paired(runs: Sequence[Mapping[str, Any]]) -> Iterator[Pair]:
    """Yield every two runs that have tests in common."""
    for before, now in combinations(sorted(runs, key=lambda run: str(run.get("datetime"))), 2):
        earlier = {(test["fullname"], test["extra_info"]["instance"]): test for test in before["benchmarks"]}
        common: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = defaultdict(list)
        for test in now["benchmarks"]:
            instance = test["extra_info"]["instance"]
            if then := earlier.get((test["fullname"], instance)):
                common[instance].append((then, test))
        machine = "the same" if _machine(before) == _machine(now) else "another"
        for instance, tests in common.items():
            yield Pair(instance=instance, machine=machine, before=before, now=now, tests=tests)


def unchanged(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, int, dict[str, int]]]:
    """Yield instance, machine, number of tests of all its pairs of runs, and rule -> number of tests called slower."""
    tests: dict[tuple[str, str], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = defaultdict(list)
    for pair in paired(runs):
        tests[pair.instance, pair.machine] += pair.tests
    for (instance, machine), all_tests in sorted(tests.items()):
        slower = {name: sum(rule(then, now) for then, now in all_tests) for name, rule in RULES.items()}
        yield instance, machine, len(all_tests), slower


def shift_of(pair: Pair) -> Shift | None:
    """Common shift of the newer run, with its canaries. Tests that share a measurement count once."""
    interconnect = pair.tests[0][1]["extra_info"]["interconnect"]
    record = recorded_canaries(checked_run(dict(pair.before))).get(interconnect, {})
    today = (pair.now.get("canaries") or {}).get(interconnect)
    cells = {
        _medians(now): ComparedTest(launch_medians_s=_medians(now), records={"": _medians(then)})
        for then, now in pair.tests
    }
    return common_shift(
        list(cells.values()),
        canary_changes(today and _looks(today), [record], min_slowdown_percent=1),
        software=software_differences(
            *(msgspec.convert(run["environment"], EnvironmentRecord) for run in (pair.before, pair.now))
        ),
    )


def _environment(run: Mapping[str, Any]) -> EnvironmentRecord:
    return msgspec.convert(run["environment"], EnvironmentRecord)


def _looks(recorded: Mapping[str, Any]) -> CanaryTimes:
    """The times that ``CanaryTimes.to_record`` wrote."""
    before, after = (
        {name: took[look] for name, took in recorded["canaries"].items() if took[look]}
        for look in ("before_s", "after_s")
    )
    return CanaryTimes(world=recorded["world"], before_s=before, after_s=after)


def _medians(benchmark: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(benchmark["extra_info"]["launch_medians_s"])


def _machine(run: Mapping[str, Any]) -> tuple[Any, Any]:
    """Any: JSON."""
    return run["environment"].get("host"), run["environment"].get("gpu_uuids")


def _tables(runs: Sequence[Mapping[str, Any]]) -> None:
    print("| test | step, % | launch, % | run, % |\n| --- | --- | --- | --- |")
    for name, step, launch, run in noise(runs):
        print(f"| {name} | {step:.2f} | {launch:.2f} | {'' if run is None else f'{run:.2f}'} |")
    rows = list(plant_results(runs))
    if rows:
        print(f"\n| cell | planted | of a step, % | found | changes, % | pairs | {' | '.join(RIVALS)} |")
        print(f"| --- | --- | --- | --- | --- | --- |{' --- |' * len(RIVALS)}")
    for row in rows:
        slower = f"{row.words.count('slower')} of {len(row.words)}"
        share = "" if row.percent is None else f"{row.percent:.2f}"
        changes, pairs = _list(row.changes_percent, "+.2f"), _list(row.pairs, "d")
        rivals = " | ".join(str(row.rivals.get(name, "")) for name in RIVALS)
        print(f"| {row.cell} | {row.planted} | {share} | {slower} | {changes} | {pairs} | {rivals} |")
    judged = list(unchanged(runs))
    if judged:
        print(f"\n| instance | machine | tests | {' | '.join(RULES)} |\n| --- | --- | --- |{' --- |' * len(RULES)}")
    for instance, machine, tests, slower_by in judged:
        print(f"| {instance} | {machine} | {tests} | {' | '.join(map(str, slower_by.values()))} |")
    for pair in paired(runs):
        if shift := shift_of(pair):
            print(f"\n{pair.instance}, {pair.machine} machine, {'red' if shift.fails else 'green'}: {shift.reason}")


def _list(values: Iterable[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)


if __name__ == "__main__":
    _tables([json.loads(Path(file).read_text()) for file in sys.argv[1:]])
