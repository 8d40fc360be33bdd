"""A plugin of pytest, next to fake ranks: other work uses most of the host, and turns differ by as much."""

from random import Random
from typing import Any

from fixtures.launch.protocol import InterleaveRequest
from fixtures.machine import cpu
from fixtures.matrix.worlds import World
from fixtures.stats import thresholds
from tests import fake_ranks

_turns = fake_ranks.ANSWERS[InterleaveRequest.function]
_random = Random(0)


def _differing(world: World, rank: int, arguments: dict[str, Any]) -> list[list[list[float]]]:
    copies = _turns(world, rank, arguments)
    return [[[s * _random.uniform(1, 2) for s in rounds] for rounds in of_config] for of_config in copies]


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[InterleaveRequest.function] = _differing
    setattr(cpu, "BUSY_SHARE", thresholds.BUSY_SHARE)  # noqa: B010  # which fake ranks do not feel
    setattr(cpu.HostWatch, "end", lambda watch: cpu.HostLoad(others=1.2, cores=2))  # noqa: B010
