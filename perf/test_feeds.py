"""How much time does loading and copying the batches cost?   pytest perf/test_feeds.py"""

import pytest

from fixtures.matrix.configs import FEEDS
from fixtures.session.measure import Measure


@pytest.mark.cells(FEEDS, "largest")
def test_feeds(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
