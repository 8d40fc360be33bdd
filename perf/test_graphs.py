"""What does a CUDA graph of the whole training step gain?   pytest perf/test_graphs.py"""

import pytest

from fixtures.gradients.fixtures import GraphTraining
from fixtures.matrix.configs import GRAPHS, GRAPHS_TRAINED, SINGLE_GRAPHS
from fixtures.session.measure import Measure


@pytest.mark.cells(GRAPHS, "largest", default=False)
def test_graphs(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells(SINGLE_GRAPHS, "every", default=False)
def test_single_graph(measure: Measure, workload: str, world: str, config: str) -> None:
    measure(workload, world, config)


@pytest.mark.cells(GRAPHS_TRAINED, "largest", default=False)
def test_graph_trains_like_its_steps(graph_training: GraphTraining, workload: str, world: str, config: str) -> None:
    """The graph may differ as much as two eager trainings do, which is not zero if kernels add in varying order."""
    trained = graph_training(workload, world, config)
    assert trained.graph_difference <= 3 * trained.eager_difference + 1e-6
