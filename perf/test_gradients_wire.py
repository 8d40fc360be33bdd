"""Does every fast variant send as little as it claims?   pytest perf -k gradients_wire"""

import pytest

from fixtures.judge.equivalence import Promise
from fixtures.matrix.averages import AVERAGES


@pytest.mark.parametrize("average", AVERAGES)
def test_gradients_wire(promise: Promise, gradient_world: str, average: str) -> None:
    if gradient_world.endswith("gpu"):
        pytest.skip("what NCCL sends passes no network counter: it takes the profiler, which is not built yet")
    if reason := AVERAGES[average].why_not_on_gloo():
        pytest.skip(reason)
    promise(gradient_world, "wire:wire", average=average)
