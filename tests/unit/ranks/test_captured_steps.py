"""Replays of graphs that hold an update, with a graph that runs what it has recorded."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch.optim import SGD, Optimizer

from fixtures.ranks.script.watch import CapturedSteps


class Graph:
    """Calls what was recorded, as a CUDA graph runs its kernels: no hook of an optimizer runs."""

    def __init__(self) -> None:
        self.recorded: list[Callable[[], None]] = []

    def capture_begin(self) -> None: ...

    def capture_end(self) -> None: ...

    def replay(self) -> None:
        for call in self.recorded:
            call()


def optimizer() -> Optimizer:
    return SGD([torch.zeros(1, dtype=torch.float32, device="cpu")])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> tuple[CapturedSteps, list[Optimizer]]:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", type("CUDAGraph", (Graph,), {}))
    ended: list[Optimizer] = []
    captured = CapturedSteps(ended.append)
    captured.watch()
    return captured, ended


def captured_by(captured: CapturedSteps, *updates: Optimizer) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    assert captured.capturing
    for one in updates:
        captured.updated(one)
    graph.capture_end()
    assert not captured.capturing
    return graph


def test_each_replay_is_a_step_of_the_first_optimizer_that_it_updates(
    steps: tuple[CapturedSteps, list[Optimizer]],
) -> None:
    captured, ended = steps
    first, second = optimizer(), optimizer()
    both, other = captured_by(captured, first, second), captured_by(captured, second)
    both.replay()
    both.replay()
    other.replay()
    captured_by(captured).replay()  # without an update it is no step
    assert ended == [first, first, second]


def test_a_graph_that_the_script_drops_is_freed(steps: tuple[CapturedSteps, list[Optimizer]]) -> None:
    captured, _ = steps
    graph = captured_by(captured, optimizer())
    del graph
    gc.collect()
    assert len(captured._updates) == 0
