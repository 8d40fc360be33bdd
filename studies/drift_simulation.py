"""Simulation for docs/studies/accuracy.md: false alarms and power of the changepoint detection.

python -m studies.drift_simulation                    both tables, on all cores
python -m studies.drift_simulation 60 35,step30,10,30  number of cases, then NIGHTS,WHAT,TESTS,FIRST_NIGHT_AFTER_STEP

WHAT is flat, flat_out (5 % of the nights slower by about 10 %), ar3 (autocorrelation 0.3), step30 or slope30 (3 %).
To add a row, add an entry to FLAT or PLANTED. The same seeds give the same numbers.
"""

import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fixtures.extras.drift.change_estimates import Change
from fixtures.extras.drift.changepoints import Series, find_changes

Changes = list[list[Change]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nights:
    """A simulated history.

    nights: number of nights. what: the change, see the module. tests: number of tests. at: first night after a step.
    """

    nights: int
    what: str
    tests: int
    at: int = 0

    @property
    def kind(self) -> str:
        """Kind that ``find_changes`` should report for the planted change."""
        return "step" if self.what.startswith("step") else "drift"

    @property
    def planted(self) -> float:
        """Size of the planted change in ln(time), over the whole drift."""
        return int(self.what.removeprefix("step").removeprefix("slope")) / 1000


FLAT = {
    "30, one test": Nights(nights=30, what="flat", tests=1),
    "100, one test": Nights(nights=100, what="flat", tests=1),
    "30, ten tests": Nights(nights=30, what="flat", tests=10),
    "30, one test, 5 % of the nights slower by about 10 %": Nights(nights=30, what="flat_out", tests=1),
    "60, one test, correlated from night to night by 0.3": Nights(nights=60, what="ar3", tests=1),
    "60, one test, correlated by 0.5": Nights(nights=60, what="ar5", tests=1),
}
PLANTED = {
    "a step of 3 % after 30 nights, 5 nights later": Nights(nights=35, what="step30", tests=10, at=30),
    "of 2 %, 5 nights later": Nights(nights=35, what="step20", tests=10, at=30),
    "of 2 %, 10 nights later": Nights(nights=40, what="step20", tests=10, at=30),
    "of 1.5 %, 30 nights later": Nights(nights=60, what="step15", tests=10, at=30),
    "a slow drift of 3 % over 60 nights": Nights(nights=60, what="slope30", tests=10),
    "of 2 %": Nights(nights=60, what="slope20", tests=10),
}


def case(seed: int, history: Nights) -> Changes:
    """Changes found in one simulated history.

    The noise of a night is about 1 %, and half of its variance is common to all tests. The first test has the change.
    """
    nights, what = history.nights, history.what
    random = np.random.default_rng([seed, nights, 7])
    common, series = random.normal(0, 0.007, nights), []
    for test in range(history.tests):
        x = common + random.normal(0, 0.007, nights) + random.normal(0, 0.005 / math.sqrt(3), nights)
        if what == "flat_out":
            x += (random.random(nights) < 0.05) * abs(random.normal(0, 0.1, nights))
        if what.startswith("ar"):
            correlation = int(what[2:]) / 10
            x[0] = random.normal(0, 0.01)
            for night, fresh in enumerate(random.normal(0, 0.01 * math.sqrt(1 - correlation**2), nights - 1), start=1):
                x[night] = correlation * x[night - 1] + fresh
        if what.startswith("step") and test == 0:
            x[history.at :] += history.planted
        if what.startswith("slope") and test == 0:
            x += np.linspace(0, history.planted, nights)
        series.append(Series(nights=tuple(range(nights)), logs=tuple(x)))
    return find_changes(series, alpha=0.01)


def _cases(pool: ProcessPoolExecutor, history: Nights, count: int) -> list[Changes]:
    return list(pool.map(case, range(count), [history] * count, chunksize=5))


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _share(some: int, of: int) -> str:
    interval = stats.binomtest(some, of).proportion_ci(0.95)
    return f"{some} of {of} ({100 * interval.low:.1f} to {100 * interval.high:.1f} %)"


def _marked(changes: Sequence[Change]) -> bool:
    """True if a change is marked as autocorrelated."""
    return any(change.correlation is not None for change in changes)


def _flat_row(title: str, results: Sequence[Changes]) -> None:
    found = [result for result in results if any(result)]
    marked = sum(any(map(_marked, result)) for result in found)
    _row(title, _share(len(found), len(results)), f"{marked} of {len(found)}")


def _planted_row(title: str, history: Nights, results: Sequence[Changes]) -> None:
    found = [result[0] for result in results if result[0]]
    alone = [first[0] for first in found if [change.kind for change in first] == [history.kind]]
    kinds = [{change.kind for change in first} for first in found]
    size = 100 * math.expm1(history.planted)
    _row(
        title,
        f"{len(found)} of {len(results)}",
        f"{kinds.count({'step'})} / {kinds.count({'drift'})} / {kinds.count({'step', 'drift'})}",
        f"{sum(change.low_percent <= size <= change.high_percent for change in alone)} of {len(alone)}",
        f"{sum(c.first <= history.at <= c.last for c in alone)} of {len(alone)}" if history.kind == "step" else "",
        sum(any(result[1:]) for result in results),
        f"{sum(map(_marked, found))} of {len(found)}",
    )


def _flat_head() -> None:
    print("\nNights in which nothing happened\n")
    _row("nights", "called changed (95 % interval)", "of these marked")
    _row(*["---"] * 3)


def _planted_head() -> None:
    print("\nPlanted in one of ten tests\n")
    _row(
        "planted",
        "found",
        "as steps / drift / both",
        "size in its interval",
        "night in its",
        "in another test",
        "marked",
    )
    _row(*["---"] * 7)


def _tables(pool: ProcessPoolExecutor) -> None:
    _flat_head()
    for title, history in FLAT.items():
        _flat_row(title, _cases(pool, history, 1000))
    _planted_head()
    for title, history in PLANTED.items():
        _planted_row(title, history, _cases(pool, history, 60))


def _rows(pool: ProcessPoolExecutor, count: int, arguments: Sequence[str]) -> None:
    for argument in arguments:
        nights, what, tests, at = argument.split(",")
        history = Nights(nights=int(nights), what=what, tests=int(tests), at=int(at))
        if what.startswith(("step", "slope")):
            _planted_row(argument, history, _cases(pool, history, count))
        else:
            _flat_row(argument, _cases(pool, history, count))


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        if sys.argv[1:]:
            _rows(pool, int(sys.argv[1]), sys.argv[2:])
        else:
            _tables(pool)
