"""The tables on drift in docs/baselines.md: how often flat nights are called changed, and what is found.

python -m tests.drift_simulation                        both tables, on all cores
python -m tests.drift_simulation 60 35,step30,10,30     cases, then nights,what,tests,first night after a step; what is
flat, flat_out (5 % of nights slower by about 10 %), ar3 (correlation 0.3 from night to night), step30 or slope30 (3 %)

A further row is one more in FLAT or PLANTED. The same seeds give the same numbers.
"""

import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fixtures.judge.change import Change
from fixtures.judge.drift import Series, changes

Found = list[list[Change]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nights:
    """What is simulated: ``tests`` over so many nights; at: of a step, its first night."""

    nights: int
    what: str
    tests: int
    at: int = 0

    @property
    def kind(self) -> str:
        """What ``changes`` should call what is planted."""
        return "step" if self.what.startswith("step") else "drift"

    @property
    def planted(self) -> float:
        """Of the logarithm, over the whole of a drift."""
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


def case(seed: int, of: Nights) -> Found:
    """About 1 % of noise a night, half of its variance common to all tests; what is planted is in the first."""
    nights, what = of.nights, of.what
    random = np.random.default_rng([seed, nights, 7])
    common, series = random.normal(0, 0.007, nights), []
    for test in range(of.tests):
        x = common + random.normal(0, 0.007, nights) + random.normal(0, 0.005 / math.sqrt(3), nights)
        if what == "flat_out":
            x += (random.random(nights) < 0.05) * abs(random.normal(0, 0.1, nights))
        if what.startswith("ar"):
            correlation = int(what[2:]) / 10
            x[0] = random.normal(0, 0.01)
            for night, fresh in enumerate(random.normal(0, 0.01 * math.sqrt(1 - correlation**2), nights - 1), start=1):
                x[night] = correlation * x[night - 1] + fresh
        if what.startswith("step") and test == 0:
            x[of.at :] += of.planted
        if what.startswith("slope") and test == 0:
            x += np.linspace(0, of.planted, nights)
        series.append(Series(nights=tuple(range(nights)), logs=tuple(x)))
    return changes(series, alpha=0.01)


def _cases(pool: ProcessPoolExecutor, of: Nights, count: int) -> list[Found]:
    return list(pool.map(case, range(count), [of] * count, chunksize=5))


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _share(some: int, of: int) -> str:
    interval = stats.binomtest(some, of).proportion_ci(0.95)
    return f"{some} of {of} ({100 * interval.low:.1f} to {100 * interval.high:.1f} %)"


def _marked(changes: Sequence[Change]) -> bool:
    """As those of nights that are correlated."""
    return any(change.correlation is not None for change in changes)


def _flat_row(title: str, results: Sequence[Found]) -> None:
    found = [one for one in results if any(one)]
    marked = sum(any(map(_marked, one)) for one in found)
    _row(title, _share(len(found), len(results)), f"{marked} of {len(found)}")


def _planted_row(title: str, of: Nights, results: Sequence[Found]) -> None:
    found = [one[0] for one in results if one[0]]
    alone = [first[0] for first in found if [change.kind for change in first] == [of.kind]]
    kinds = [{change.kind for change in first} for first in found]
    size = 100 * math.expm1(of.planted)
    _row(
        title,
        f"{len(found)} of {len(results)}",
        f"{kinds.count({'step'})} / {kinds.count({'drift'})} / {kinds.count({'step', 'drift'})}",
        f"{sum(one.low_percent <= size <= one.high_percent for one in alone)} of {len(alone)}",
        f"{sum(one.first <= of.at <= one.last for one in alone)} of {len(alone)}" if of.kind == "step" else "",
        sum(any(one[1:]) for one in results),
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
    for title, of in FLAT.items():
        _flat_row(title, _cases(pool, of, 1000))
    _planted_head()
    for title, of in PLANTED.items():
        _planted_row(title, of, _cases(pool, of, 60))


def _asked(pool: ProcessPoolExecutor, count: int, arguments: Sequence[str]) -> None:
    for argument in arguments:
        nights, what, tests, at = argument.split(",")
        of = Nights(nights=int(nights), what=what, tests=int(tests), at=int(at))
        if what.startswith(("step", "slope")):
            _planted_row(argument, of, _cases(pool, of, count))
        else:
            _flat_row(argument, _cases(pool, of, count))


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        if sys.argv[1:]:
            _asked(pool, int(sys.argv[1]), sys.argv[2:])
        else:
            _tables(pool)
