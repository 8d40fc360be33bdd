"""The prior of the variance between runs that the suite ships, and how small a slowdown it finds in a new storage.

python -m studies.fitted_prior               writes fixtures/stats/fitted_prior.py from the records in baselines/
python -m studies.fitted_prior --cut         backtests storages cut from them, each GPU left out of the fit in turn
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median, quantiles
from textwrap import wrap

from fixtures.extras.backtest.command import Replayed, Rule, backtest_of
from fixtures.records.baselines import History, history_of, instances_of, read_records, spreads_of
from fixtures.records.schema import FullRecord
from fixtures.stats.prior import (
    BEFORE_FIT,
    OFFSET,
    FittedPrior,
    Kind,
    Spread,
    diagonal,
    maximise,
    predictors,
    usual_launches,
)

_ROOT = Path(__file__).parent.parent
_FILE = _ROOT / "fixtures" / "stats" / "fitted_prior.py"
_NOTHING = FittedPrior(mean=(), covariance=(), usual=0, records={}, links=frozenset())
_DIGITS = 4
NEWLINE = "\n"
# Of a storage that is cut: its tests and its records; number of storages of each kind and instance.
TESTS, RECORDS, CUTS = 4, (1, 2, 3), 3

Storage = Mapping[str, Mapping[str, FullRecord]]


def read_storage(storage: Path = _ROOT / "baselines") -> Storage:
    """Instance -> name of the file -> record."""
    return {instance: read_records(storage, instance) for instance in instances_of(storage)}


def fit_all(
    spreads: Sequence[Sequence[Spread]],
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...], float]:
    """``mean``, ``covariance`` and ``usual`` of a ``FittedPrior``. spreads: of each instance."""
    every = [spread for instance in spreads for spread in instance]
    usual = usual_launches(every)
    rows = [
        (
            *predictors(s.launches, s.kind, usual, own=False)[:OFFSET],
            *(float(number == other) for other in range(len(spreads))),
        )
        for number, instance in enumerate(spreads)
        for s in instance
    ]
    before = [*BEFORE_FIT[:OFFSET], *[BEFORE_FIT[OFFSET]] * len(spreads), BEFORE_FIT[-1]]
    means, deviations = zip(*before, strict=True)
    return *maximise(rows, every, means, diagonal(deviations)), usual


def fitted_to(storage: Storage) -> FittedPrior:
    """The fit, with as many digits as in the file."""
    histories = [history_of(records) for records in storage.values()]
    mean, covariance, usual = fit_all([spreads_of(history, own=False, shipped=_NOTHING) for history in histories])
    return FittedPrior(
        mean=_rounded(mean),
        covariance=tuple(map(_rounded, covariance)),
        usual=_rounded([usual])[0],
        records={
            record.finished: number
            for number, records in enumerate(storage.values())
            for record in records.values()
            if record.finished
        },
        links=frozenset(recorded.kind.link for history in histories for recorded in history.values()),
    )


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") + 0.0 for value in values)


def text_of(storage: Storage, when: datetime) -> str:
    """The text of the file."""
    fitted = fitted_to(storage)
    records = [record for instance in storage.values() for record in instance.values()]
    devices = sorted({record.environment.device for record in records if record.environment.device})
    versions = sorted({record.environment.torch for record in records if record.environment.torch})
    links = ", ".join(f'"{link}"' for link in sorted(fitted.links))
    return f'''"""The shipped prior of the variance between runs (``prior.py``).

Written by ``python -m studies.fitted_prior``.

{when:%Y-%m-%d}, {len(records)} records of {len(storage)} instances in baselines/: {", ".join(devices)};
links {", ".join(sorted(fitted.links))}; torch {", ".join(versions)}.
"""

from fixtures.stats.prior import FittedPrior

# Instances: {_wrapped(", ".join(storage), "# ")}
# fmt: off
SHIPPED = FittedPrior(
    mean={_wrapped(fitted.mean)},
    covariance=(
{"".join(f"        {_wrapped(row)},{NEWLINE}" for row in fitted.covariance)}    ),
    usual={fitted.usual},
    records={{
{"".join(f'        "{one}": {number},{NEWLINE}' for one, number in fitted.records.items())}    }},
    links=frozenset({{{links}}}),
)
'''


def _wrapped(value: object, begin: str = "            ") -> str:
    return f"{NEWLINE}{begin}".join(wrap(str(value), 100))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """A storage of few tests and one instance. shipped: the prior, fitted without the instance's model of GPU."""

    instance: str
    history: History
    shipped: FittedPrior
    group: str


def cuts(storage: Storage, seed: int = 1) -> Iterator[Cut]:
    """Storages of TESTS tests each, alike in link and limit, from the records that all of them are in."""
    random = Random(seed)
    device = {name: next(iter(records.values())).environment.device for name, records in storage.items()}
    without = {
        model: fitted_to({name: records for name, records in storage.items() if device[name] != model})
        for model in set(device.values())
    }
    for instance, records in storage.items():
        history = history_of(records)
        alike: dict[tuple[Kind, tuple[str, ...]], list[str]] = {}
        for test, recorded in history.items():
            alike.setdefault((recorded.kind, tuple(recorded.files)), []).append(test)
        for (kind, files), tests in alike.items():
            if len(files) > 1 and len(tests) >= TESTS:
                group = "host limits" if kind.without_lead else "host memory" if kind.through_host else "NVLink"
                for _ in range(CUTS):
                    chosen = {test: history[test] for test in random.sample(tests, TESTS)}
                    yield Cut(instance=instance, history=chosen, shipped=without[device[instance]], group=group)


def thresholds(cuts: Iterable[Cut], number: int, plant_percent: float = 2) -> dict[tuple[str, str], list[Replayed]]:
    """Group and instance -> every test of every replay against so many records."""
    rule = Rule(records=number, plant_percent=plant_percent)
    found: dict[tuple[str, str], list[Replayed]] = {}
    for cut in cuts:
        replays = backtest_of(cut.history, cut.instance, rule, shipped=cut.shipped).replays
        found.setdefault((cut.group, cut.instance), []).extend(test for replay in replays for test in replay.tests)
    return found


def _print_cuts() -> None:
    every = list(cuts(read_storage()))
    print("| tests | instance | records | verdicts | threshold: half, three quarters | slower, faster | 2 % found |")
    print("|---|---|---|---|---|---|---|")
    for number in RECORDS:
        for (group, instance), tests in sorted(thresholds(every, number).items()):
            if not tests:
                continue
            limits = [test.verdict.threshold_percent or 0 for test in tests]
            words = Counter(test.verdict.word for test in tests)
            planted = sum(test.planted is not None and test.planted.word == "slower" for test in tests)
            half, most = median(limits), quantiles(limits, n=4)[2]
            moved = f"{words['slower']}, {words['faster']}"
            print(
                f"| {group} | {instance} | {number} | {len(tests)} | {half:.1f} %, {most:.1f} % | {moved} | {planted} |"
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["--cut"]:
        _print_cuts()
    else:
        _FILE.write_text(text_of(read_storage(), datetime.now(UTC)))
