"""What latency and bandwidth do bare collectives reach, by kind and size?   pytest perf/test_collectives.py"""

import pytest

from fixtures.matrix.transfers import LARGE_ALL_REDUCES, MORE_COLLECTIVES
from fixtures.session.measure import Bandwidth


@pytest.mark.transfers(LARGE_ALL_REDUCES)
def test_collectives(bandwidth: Bandwidth, world: str, collective: str) -> None:
    bandwidth(world, collective)


@pytest.mark.transfers(MORE_COLLECTIVES, default=False)
def test_more_collectives(bandwidth: Bandwidth, world: str, collective: str) -> None:
    bandwidth(world, collective)
