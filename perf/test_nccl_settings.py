"""Does a setting of NCCL beat its automatic ones?   pytest perf/test_nccl_settings.py"""

import pytest

from fixtures.matrix.configs import NCCL_AUTOMATIC, NCCL_SETTINGS
from fixtures.session.measure import Measure


# Not by default: each setting has ranks of its own, whose start takes 6 s on two GPUs and up to 30 s on eight.
@pytest.mark.cells((*NCCL_AUTOMATIC, *NCCL_SETTINGS), "largest", default=False)
def test_nccl_settings(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
