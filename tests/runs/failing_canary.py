"""A plugin of pytest, next to fake ranks of a world of one: a rank dies while canaries are timed after the tests."""

from itertools import count
from typing import Any

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CanaryRequest
from fixtures.matrix.worlds import World
from tests import fake_ranks
from tests.runs.jumping_canary import LAUNCHES

_time = fake_ranks.ANSWERS[CanaryRequest.function]
_calls = count()


def _die_after_the_tests(world: World, rank: int, arguments: dict[str, Any]) -> dict[str, list[float]]:
    if next(_calls) >= 2 * LAUNCHES:  # each is timed twice before the tests
        raise RankFailure([], "timing the canaries", "rank 0 was killed by SIGKILL")
    result: dict[str, list[float]] = _time(world, rank, arguments)
    return result


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[CanaryRequest.function] = _die_after_the_tests
