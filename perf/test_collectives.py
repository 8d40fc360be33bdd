"""What latency and bandwidth do bare collectives reach, by kind and size?   pytest perf/test_collectives.py"""

from fixtures.session.measure import Bandwidth


def test_collectives(bandwidth: Bandwidth, world: str, collective: str) -> None:
    bandwidth(world, collective)
