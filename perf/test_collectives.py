"""What bandwidth do bare all-reduces reach, by size?   pytest perf/test_collectives.py"""

from fixtures.judge.bandwidth import Bandwidth


def test_collectives(bandwidth: Bandwidth, world: str, collective: str) -> None:
    bandwidth(world, collective)
