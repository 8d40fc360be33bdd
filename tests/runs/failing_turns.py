"""A plugin of pytest, next to fake ranks: a rank runs out of memory while configs take turns."""

from typing import Any

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import InterleaveRequest
from fixtures.matrix.worlds import World
from tests import fake_ranks


def _out_of_memory(world: World, rank: int, arguments: dict[str, Any]) -> list[list[list[float]]]:
    raise RankFailure([], "taking turns", "rank 1 ran out of memory")


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[InterleaveRequest.function] = _out_of_memory
