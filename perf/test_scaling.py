"""How much do DDP and each additional device cost?   pytest perf/test_scaling.py"""

import pytest

from fixtures.matrix.configs import SCALING, SCALING_AT_BEST
from fixtures.session.measure import Measure


@pytest.mark.cells(SCALING, "every", several_ranks=SCALING_AT_BEST)
def test_scaling(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
