"""What does torch.compile gain, and which way of compiling DDP?   pytest perf/test_compile.py"""

import pytest

from fixtures.matrix.configs import COMPILED, COMPILED_SINGLE
from fixtures.session.measure import Measure


@pytest.mark.cells(COMPILED, "largest", default=False)
def test_compile(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells(COMPILED_SINGLE, "every", default=False)
def test_single_compile(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
