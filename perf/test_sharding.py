"""Which optimizer or sharding saves memory, and which saves time?   pytest perf/test_sharding.py"""

import pytest

from fixtures.matrix.configs import SHARDING
from fixtures.session.measure import Measure


@pytest.mark.cells(SHARDING, "largest", default=False)
def test_sharding(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
