"""Which hook of the suite pays on this machine?   pytest perf/test_hooks.py"""

import pytest

from fixtures.matrix.configs import HOOKS_COMPARED, HOOKS_OF_THE_SUITE
from fixtures.session.measure import Measure


@pytest.mark.cells((*HOOKS_COMPARED, *HOOKS_OF_THE_SUITE), "largest", default=False)
def test_hooks(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
