"""What does it cost to feed the batches?   pytest perf/test_feeds.py"""

import pytest

from fixtures.judge.measure import Measure
from fixtures.matrix.configs import FEEDS


@pytest.mark.cells(FEEDS, "largest")
def test_feeds(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
