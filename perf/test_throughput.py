"""Which config trains fastest on all devices of this machine?   pytest perf/test_throughput.py"""

import pytest

from fixtures.matrix.configs import THROUGHPUT
from fixtures.session.measure import Measure


@pytest.mark.cells(THROUGHPUT, "largest", own_hooks=True)
def test_throughput(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
