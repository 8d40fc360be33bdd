"""What do copies between host and device cost, in a step and bare?   pytest perf/test_copies.py"""

import pytest

from fixtures.matrix.configs import COPIES, COPIES_COMPARED, OUTPUTS, OUTPUTS_COMPARED
from fixtures.matrix.transfers import BARE_COPIES
from fixtures.session.measure import Bandwidth, Measure


@pytest.mark.cells((*COPIES_COMPARED, *COPIES), "largest", default=False)
def test_copies(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells((*OUTPUTS_COMPARED, *OUTPUTS), "every", default=False)
def test_outputs(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.transfers(BARE_COPIES, default=False)
def test_bare_copies(bandwidth: Bandwidth, world: str, copy: str) -> None:
    bandwidth(world, copy)
