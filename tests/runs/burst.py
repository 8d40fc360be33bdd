"""A plugin of pytest, next to fake ranks: the first LAUNCHES launches take twice as long.

The pause before a slower test is launched again is short.
"""

from dataclasses import replace
from itertools import count
from typing import Any

from fixtures.launch.protocol import TrainRequest, TrainResult
from fixtures.matrix.worlds import World
from fixtures.session import run_verdict
from tests import fake_ranks

LAUNCHES, PAUSE_S = 4, 1

_launches = count()


def _train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    """In a world of one."""
    result = fake_ranks.train(world, rank, arguments)
    factor = 2 if next(_launches) < LAUNCHES else 1
    return replace(result, step_s=[factor * step_s for step_s in result.step_s])


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[TrainRequest.function] = _train
    setattr(run_verdict, "PAUSE_S", PAUSE_S)  # noqa: B010  # not its own name
