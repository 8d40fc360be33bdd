"""Each mechanism of the verdict, taken out one at a time: what it finds and prevents, on records and in simulation.

python -m studies.mechanisms      the table of docs/studies/accuracy.md; three minutes

Records: every record of baselines/ against each two others, unchanged, and with 2 % planted in a test that the host
does not limit. Simulation: unchanged runs of 40 tests with three records (studies/calibration.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from fixtures.extras.backtest.replays import Rule, backtest_of
from fixtures.records.baselines import history_of
from fixtures.records.priors import Priors
from fixtures.stats.prior import launches_of, wide
from studies.calibration import NOISES, Nights, Red, estimated, nights, rule_of, run_scales
from studies.fitted_prior import read_storage

_RUNS, _TESTS, _RECORDS = 200, 40, 3
_NOISES = ("as measured over NVLink", "two kinds of host", "the host's nights 15 %")


def _flat(seen: Nights) -> Nights:
    return replace(seen, canaries=np.zeros_like(seen.canaries), host=np.zeros_like(seen.host))


def _alone(red: Red) -> Red:
    """Without the common shift; what it explains is not known then."""
    return replace(red, common=np.zeros_like(red.common))


def _ruled(seen: Nights, **changed: Any) -> Red:  # Any: fields of the priors
    prior = replace(estimated(seen), **changed)
    return rule_of(seen, prior, run_scales(seen.medians, prior))


# Name -> the simulated rule without this mechanism.
SIMULATED: dict[str, Callable[[Nights], Red]] = {
    "as it is": _ruled,
    "the fitted prior": lambda seen: _ruled(seen, variance=1e-4, degrees=4.0),
    "the shared spread of launches": lambda seen: _ruled(seen, launch=0.0),
    "the run scale": lambda seen: rule_of(seen, estimated(seen), np.ones((1, 1))),
    "the common shift": lambda seen: _alone(_ruled(seen)),
    "canaries and the host's canary": lambda seen: _ruled(_flat(seen)),
    "measuring again": lambda seen: _ruled(replace(seen, again=seen.medians[..., -1, :])),
}


def _wide(priors: Priors, test: str, launches: Any, records: Any, *_: Any) -> Any:  # Any: as Priors.prior
    return wide(launches_of([*records, launches]).of_one)


@contextmanager
def without(name: str) -> Iterator[None]:
    """Take this mechanism out of ``backtest``; those that records cannot show change nothing."""
    places: dict[str, tuple[str, Any]] = {
        "the fitted prior": ("fixtures.records.priors.Priors.prior", _wide),
        "the shared spread of launches": ("fixtures.records.priors.launch_variance", lambda own, others: own.of_one),
        "the run scale": ("fixtures.extras.backtest.replays.run_scale", lambda changes, faster=False: 1.0),
    }
    if name not in places:
        yield
        return
    with patch(*places[name]):
        yield


def on_records(name: str) -> tuple[int, int, int, int]:
    """Unchanged verdicts that are slower, all of them; planted 2 % found in tests that the host does not limit, all."""
    with without(name):
        replayed = [
            test
            for instance, records in read_storage().items()
            for replay in backtest_of(history_of(records), instance, Rule(records=2, plant_percent=2)).replays
            for test in replay.tests
        ]
    free = [test.planted for test in replayed if not test.host_limited and test.planted is not None]
    slower = sum(test.verdict.word == "slower" for test in replayed)
    return slower, len(replayed), sum(one.word == "slower" for one in free), len(free)


def in_simulation(name: str, noise: str) -> tuple[float, float]:
    """Unchanged runs that are red, and runs with 2 % planted in one test in which it is found, in %."""
    seen = nights(NOISES[noise], runs=_RUNS, records=_RECORDS, seed=7, tests=_TESTS)
    rule = SIMULATED[name]
    medians, again = seen.medians.copy(), seen.again.copy()
    medians[:, 0, -1] += np.log(1.02)
    again[:, 0] += np.log(1.02)
    found = rule(replace(seen, medians=medians, again=again)).single[:, 0]
    return 100 * float(rule(seen).runs.mean()), 100 * float(found.mean())


def _print() -> None:
    print("| without | records: slower | 2 % found | " + " | ".join(f"{noise}: red, found" for noise in _NOISES) + " |")
    print("|---" * (3 + len(_NOISES)) + "|")
    for name in SIMULATED:
        slower, of, found, free = on_records(name)
        simulated = (in_simulation(name, noise) for noise in _NOISES)
        cells = " | ".join(f"{red:.1f} %, {found_:.0f} %" for red, found_ in simulated)
        print(f"| {name} | {slower} of {of} | {found} of {free} | {cells} |", flush=True)


if __name__ == "__main__":
    _print()
