"""What bandwidth does a bare all-reduce of each size reach?   pytest perf/test_collectives.py"""

from fixtures.session.measure import Bandwidth


def test_collectives(bandwidth: Bandwidth, world: str, collective: str) -> None:
    bandwidth(world, collective)
