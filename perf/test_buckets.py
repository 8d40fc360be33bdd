"""Which bucket size suits this machine?   pytest perf/test_buckets.py"""

import pytest

from fixtures.judge.measure import Measure
from fixtures.matrix.configs import BUCKETS


@pytest.mark.cells(BUCKETS, "largest")
def test_buckets(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
