"""What measured runs say of the verdict: noise by its source, and which planted slowdowns ``--against`` found.

python -m tests.calibration_measured RUN.json...      of --benchmark-json or baselines/; tests.planted says how to plant

Step, launch and run are standard deviations in % of the median step: of a step within its launch (from the median
absolute deviation), of a launch's median around its run's mean, of a run's mean around those of the other runs given.
"""

import json
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.planted import planted_us

# Of a normal distribution: standard deviation over median absolute deviation.
_SIGMA_OVER_MAD = 1.4826
_NAME = re.compile(r"\w+\[(?P<workload>[\w.]+?)-(?P<world>\d+[cg]pu)-(?P<config>.+)\]")


def noise(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float, float | None]]:
    """Test, step, launch and run, in %; the last is None where only one run has the test. Any: JSON."""
    by_test: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        for benchmark in run["benchmarks"]:
            by_test[benchmark["name"]].append(benchmark)
    for name, benchmarks in by_test.items():
        steps = [_step(benchmark) for benchmark in benchmarks]
        logs = [[math.log(s) for s in benchmark["extra_info"]["launch_medians_s"]] for benchmark in benchmarks]
        launches = [statistics.stdev(of_run) for of_run in logs if len(of_run) > 1]
        means = [statistics.fmean(of_run) for of_run in logs]
        yield (
            name,
            100 * statistics.median(steps),
            100 * _root_mean_square(launches) if launches else math.nan,
            100 * statistics.stdev(means) if len(means) > 1 else None,
        )


def _step(benchmark: Mapping[str, Any]) -> float:
    """Of the logarithm of a step within its launch."""
    data, info = iter(benchmark["stats"]["data"]), benchmark["extra_info"]
    launches = len(info["launch_medians_s"])
    each = info.get("launch_steps") or [benchmark["stats"]["rounds"] // launches] * launches
    deviations = []
    for measured in each:
        steps = [math.log(next(data)) for _ in range(measured)]
        middle = statistics.median(steps)
        deviations += [abs(step - middle) for step in steps]
    return _SIGMA_OVER_MAD * statistics.median(deviations)


def _root_mean_square(values: Iterable[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))


def found(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, float, list[str], list[float], list[int]]]:
    """World and config, the planted share of a step in %, and of each copy of that test: word, change in %, pairs."""
    copies: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        for benchmark in run["benchmarks"]:
            name = _NAME.fullmatch(benchmark["name"])
            us = planted_us(name["workload"]) if name else None
            if name and us is not None and "against" in benchmark["extra_info"]:
                copies[f"{name['world']}-{name['config']}", us].append(benchmark["extra_info"])
    for (cell, us), infos in sorted(copies.items()):
        step_s = statistics.median(s for info in infos for s in info["against"]["launch_medians_s"])
        yield (
            cell,
            f"{us} us",
            100 * us / 1e6 / step_s,
            [info["verdict"]["word"] for info in infos],
            [info["against"]["change_percent"] for info in infos],
            [info["against"]["pairs"] for info in infos],
        )


def _tables(runs: Sequence[Mapping[str, Any]]) -> None:
    print("| test | step, % | launch, % | run, % |\n| --- | --- | --- | --- |")
    for name, step, launch, run in noise(runs):
        print(f"| {name} | {step:.2f} | {launch:.2f} | {'' if run is None else f'{run:.2f}'} |")
    rows = list(found(runs))
    if rows:
        print("\n| cell | planted | of a step, % | found | changes, % | pairs |\n| --- | --- | --- | --- | --- | --- |")
    for cell, planted, percent, words, changes, pairs in rows:
        slower = f"{words.count('slower')} of {len(words)}"
        print(f"| {cell} | {planted} | {percent:.2f} | {slower} | {_list(changes, '+.2f')} | {_list(pairs, 'd')} |")


def _list(values: Iterable[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)


if __name__ == "__main__":
    _tables([json.loads(Path(file).read_text()) for file in sys.argv[1:]])
