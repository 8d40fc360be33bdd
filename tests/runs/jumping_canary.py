"""A plugin of pytest, next to fake ranks of a world of one: canaries take twice as long after the tests as before."""

from itertools import count
from typing import Any

from fixtures.launch.protocol import CanaryRequest
from fixtures.matrix.worlds import World
from tests import fake_ranks

LAUNCHES = 2

_time = fake_ranks.ANSWERS[CanaryRequest.function]
_calls = count()


def _time_canaries(world: World, rank: int, arguments: dict[str, Any]) -> dict[str, list[float]]:
    factor = 1 if next(_calls) < LAUNCHES else 2
    return {name: [factor * s for s in times] for name, times in _time(world, rank, arguments).items()}


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[CanaryRequest.function] = _time_canaries
