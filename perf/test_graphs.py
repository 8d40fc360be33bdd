"""What does a CUDA graph of the whole training step gain?   pytest perf/test_graphs.py"""

import pytest

from fixtures.matrix.configs import GRAPHS, SINGLE_GRAPHS
from fixtures.session.measure import Measure


@pytest.mark.cells(GRAPHS, "largest", default=False)
def test_graphs(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells(SINGLE_GRAPHS, "every", default=False)
def test_single_graph(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)
