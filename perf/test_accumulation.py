"""What do fewer exchanges gain: accumulated batches, larger ones, local SGD?   pytest perf/test_accumulation.py"""

import pytest

from fixtures.matrix.configs import FEWER_EXCHANGES
from fixtures.session.measure import Measure


@pytest.mark.cells(FEWER_EXCHANGES, "largest", default=False)
def test_accumulation(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
