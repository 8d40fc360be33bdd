"""Does a setting of DDP beat its defaults?   pytest perf/test_ddp_settings.py"""

import pytest

from fixtures.matrix.configs import DDP_PLAIN, DDP_SETTINGS
from fixtures.session.measure import Measure


@pytest.mark.cells((*DDP_PLAIN, *DDP_SETTINGS), "largest", default=False)
def test_ddp_settings(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
