"""What does the DDP wrapper cost, and what does each further device?   pytest perf/test_scaling.py"""

import pytest

from fixtures.judge.measure import Measure
from fixtures.matrix.configs import SCALING


@pytest.mark.cells(SCALING, "every")
def test_scaling(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
