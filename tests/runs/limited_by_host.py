"""A plugin of pytest that makes a run on the CPU one on GPUs whose host limits every step, and has a canary.

The host of a CPU is the device itself: it has no lead, and no canary of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fixtures.matrix.transfers import HOST
from fixtures.records.measurement import Launch
from fixtures.session import canaries

LAUNCHES_S = 0.007
_of_one_launch, _of = canaries.of_one_launch, Launch.of


def of_one_launch(results: Sequence[Mapping[str, list[float]]]) -> dict[str, float]:
    return _of_one_launch(results) | {HOST: LAUNCHES_S}


def of(*arguments: Any) -> Launch:
    return replace(_of(*arguments), host_lead_s=1e-4)


def pytest_configure() -> None:
    canaries.of_one_launch = of_one_launch
    Launch.of = of  # type: ignore[method-assign, assignment]
