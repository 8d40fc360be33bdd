"""How often one of equal configs is called the fastest, and which difference is found in 80 % of tables, in %.

python -m studies.false_winners [--tables 20000] [--leads 400]      # ten minutes; the upper end of 95 % in brackets

A table has configs of one table of a record in ``baselines/``. Launches: each config has the spread that its launches
have over the records of its instance, the sets of processes differ as in the record, and residuals are drawn from those
of all tests. Turns: a block is the shorter of two consecutive steps, the blocks of a copy are stretches of launches of
one config, with their autocorrelation, and copies differ by COPY_PERCENT. Leads are of configs of the quieter half.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fixtures.stats.difference import Turns, fastest_by_launches
from fixtures.stats.thresholds import COPY_PERCENT

Logs = NDArray[np.float64]
BASELINES = Path(__file__).parent.parent / "baselines"
# Configs of a table, launches of a config, and rounds of turns, of two copies.
OF_LAUNCHES, OF_TURNS, LAUNCHES, ROUNDS, COPIES = (2, 4, 10), (2, 4), (2, 3, 4, 12), (6, 12, 60), 2
_LEAST_CONFIGS, _RECORDED = 6, 3
# Of ln(time): launches that agree better do so by chance.
_LEAST_SPREAD = 1e-4
# Of the leads that are tried, in ln.
_SMALLEST, _LARGEST, _STEPS = math.log(1e-5), math.log(1.0), 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedTable:
    """spread: standard deviation of a launch of each config. sets: of the sets. steps: of each config, ln(step) of its
    launches."""

    spread: Logs
    sets: float
    steps: Sequence[Sequence[Logs]]


def recorded(folder: Path = BASELINES) -> tuple[list[RecordedTable], Logs]:
    """The tables of the records, and the residuals of all launches in standard deviations."""
    found, residuals = [], defaultdict[tuple[str, ...], list[Logs]](list)
    for file in sorted(folder.glob("*/*.json")):
        groups = defaultdict[tuple[str, ...], list[tuple[str, Sequence[float], Sequence[Logs]]]](list)
        for benchmark in json.loads(file.read_text())["benchmarks"]:
            info = benchmark["extra_info"]
            if "config" not in info or len(info["launch_medians_s"]) != _RECORDED:
                continue
            steps = np.split(np.log(benchmark["stats"]["data"]), np.cumsum(info["launch_steps"])[:-1])
            where: tuple[str, ...] = (file.parent.name, info["workload"], info["world"], info["interconnect"])
            groups[where].append((info["config"], info["launch_medians_s"], steps))
        for table, rows in groups.items():
            if len(rows) < _LEAST_CONFIGS:
                continue
            logs = np.log([medians for _, medians, _ in rows])
            logs -= logs.mean(axis=1, keepdims=True)
            of_set = np.median(logs, axis=0)
            names = [(*table, name) for name, _, _ in rows]
            for name, own in zip(names, logs - of_set, strict=True):
                residuals[name].append(own - own.mean())
            found.append((names, float((of_set - of_set.mean()).std(ddof=1)), [steps for _, _, steps in rows]))
    spreads = {
        name: max(math.sqrt(np.square(rows).sum() / len(rows) / (_RECORDED - 1)), _LEAST_SPREAD)
        for name, rows in residuals.items()
    }
    pooled = np.concatenate(
        [np.concatenate(rows) / spreads[name] for name, rows in residuals.items() if len(rows) >= _RECORDED]
    )
    pooled = np.concatenate([pooled, -pooled]) / pooled.std()
    tables = [
        RecordedTable(spread=np.array([spreads[name] for name in names]), sets=sets, steps=steps)
        for names, sets, steps in found
    ]
    return tables, pooled


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Draws tables from those of the records."""

    tables: Sequence[RecordedTable]
    residuals: Logs

    def _members(self, rng: np.random.Generator, configs: int, *, quiet: bool) -> tuple[RecordedTable, Logs]:
        table = self.tables[int(rng.integers(len(self.tables)))]
        able = np.flatnonzero(table.spread <= np.median(table.spread)) if quiet else np.arange(len(table.spread))
        return table, rng.choice(able, configs, replace=len(able) < configs)

    def launches(self, rng: np.random.Generator, configs: int, launches: int, *, quiet: bool = False) -> Logs:
        """ln(time) of equal configs, shape (configs, launches)."""
        table, members = self._members(rng, configs, quiet=quiet)
        own = table.spread[members, None] * rng.choice(self.residuals, (configs, launches))
        return np.asarray(own + table.sets * rng.standard_normal(launches))

    def turns(self, rng: np.random.Generator, configs: int, rounds: int, *, quiet: bool = False) -> Logs:
        """ln(time) of one config under several names, shape (configs, copies, rounds)."""
        table, (config,) = self._members(rng, 1, quiet=quiet)
        copies = [[self._blocks(rng, table.steps[config], rounds) for _ in range(COPIES)] for _ in range(configs)]
        return np.array(copies) + COPY_PERCENT / 100 * rng.standard_normal((configs, COPIES, 1))

    def _blocks(self, rng: np.random.Generator, launches: Sequence[Logs], rounds: int) -> Logs:
        blocks: list[Logs] = []
        while sum(map(len, blocks)) < rounds:
            steps = launches[int(rng.integers(len(launches)))]
            stretch = steps[int(rng.integers(len(steps) // 2)) :]
            pairs = stretch[: len(stretch) // 2 * 2].reshape(-1, 2) - np.median(steps)
            blocks.append(pairs.min(axis=1))
        return np.concatenate(blocks)[:rounds]


Named = Callable[[Logs], list[int]]


def by_launches(logs: Logs) -> list[int]:
    return fastest_by_launches(np.exp(logs).tolist())[0]


def in_turns(logs: Logs) -> list[int]:
    turns = Turns(block_s=dict(enumerate(np.exp(logs).tolist())), on_gpu=True)
    return turns.fastest(turns.block_s)[0]


def false_winners(drawn: Iterator[Logs], named: Named) -> tuple[float, float]:
    """Percent of the tables of equal configs in which one is named alone, and the upper end of its 95 % interval."""
    found = [len(named(logs)) == 1 for logs in drawn]
    share = stats.binomtest(sum(found), len(found))
    return 100 * share.statistic, 100 * float(share.proportion_ci(0.95).high)


def smallest_found_percent(drawn: Sequence[Logs], named: Named) -> float:
    """The lead of the first config that is named alone in 80 % of these tables."""
    low, high = _SMALLEST, _LARGEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        lead = np.array([math.exp(middle)])
        found = [named(np.concatenate([logs[:1] - lead, logs[1:]])) == [0] for logs in drawn]
        low, high = (low, middle) if np.mean(found) >= 0.8 else (middle, high)
    return 100 * math.expm1(math.exp(high))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=20_000)
    parser.add_argument("--leads", type=int, default=400)
    given = parser.parse_args()
    tables, residuals = recorded()
    simulation = Simulation(tables=tables, residuals=residuals)
    cases: list[tuple[str, Callable[..., Logs], Named, Sequence[int], Sequence[int]]] = [
        ("launches", simulation.launches, by_launches, OF_LAUNCHES, LAUNCHES),
        ("rounds", simulation.turns, in_turns, OF_TURNS, ROUNDS),
    ]
    for unit, draw, named, several, numbers in cases:
        print("", unit, *numbers, "", sep=" | ")
        for configs in several:
            winners, leads = [], []
            for number in numbers:
                rng = np.random.default_rng(100 * configs + number)
                share, upper = false_winners((draw(rng, configs, number) for _ in range(given.tables)), named)
                winners.append(f"{share:.2f} ({upper:.2f})")
                quiet = [draw(rng, configs, number, quiet=True) for _ in range(given.leads)]
                leads.append(f"{smallest_found_percent(quiet, named):.2f}")
            print("", f"{configs} configs, false winners", *winners, "", sep=" | ")
            print("", f"{configs} configs, difference found", *leads, "", sep=" | ", flush=True)
