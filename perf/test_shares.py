"""What would fewer bytes, or a faster link, gain?   pytest perf/test_shares.py"""

import pytest

from fixtures.matrix.configs import SHARES_COMPARED, SHARES_OF_BYTES
from fixtures.session.measure import Measure


@pytest.mark.cells((*SHARES_OF_BYTES, *SHARES_COMPARED), "largest", default=False)
def test_shares(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
