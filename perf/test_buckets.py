"""Which bucket size is fastest on this machine?   pytest perf/test_buckets.py"""

import pytest

from fixtures.matrix.configs import BUCKETS
from fixtures.session.measure import Measure


@pytest.mark.cells(BUCKETS, "largest")
def test_buckets(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
