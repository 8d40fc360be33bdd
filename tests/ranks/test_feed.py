"""A loader whose workers are too slow: several batches arrive at about the same time, then all steps wait."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from fixtures.launch.protocol import TrainResult
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import loader_workers
from fixtures.trace.breakdown import over_ranks
from tests.ranks.asking import trained

WORKERS = loader_workers(parse_world("1cpu"))
# Workload -> seconds that its workers need per batch. A step without waiting takes 100 ms.
STARVED = {"starved": 0.25, "just_starved": 0.13}


def fed(ranks: RankSet, workload: str, **more: Any) -> TrainResult:
    return trained(ranks, "feed_loader", workload=f":{workload}", world="1cpu", warmup=1, **more)[0]


def assert_as_long_as_the_workers(workload: str, step_s: Callable[[], float]) -> None:
    """Over a step that does not wait, and under two, where another process does not make each of four longer."""
    least_s, most_s = 0.85 * STARVED[workload], 1.7 * STARVED[workload]
    for _ in range(4):
        found_s = step_s()
        assert found_s > least_s
        if found_s < most_s:
            break
    assert found_s < most_s


@pytest.mark.parametrize("workload", STARVED)
def test_a_measured_step_is_as_long_as_the_workers_take(ranks: RankSet, workload: str) -> None:
    """Batches that were ready after the first step do not count, and a round counts as one step."""

    def step_s() -> float:
        answer = fed(ranks, workload, steps=2 * WORKERS)
        assert len(answer.step_s) == 2
        return median(answer.step_s)

    assert_as_long_as_the_workers(workload, step_s)


def test_fewer_steps_than_workers_are_a_round_and_the_workers_end_with_the_launch(ranks: RankSet) -> None:
    """torch waits 5 s for each worker that got no signal to end."""
    assert len(fed(ranks, "just_starved", steps=1).step_s) == 1
    began = time.monotonic()
    fed(ranks, "just_starved", steps=1)
    assert time.monotonic() - began < 5 * WORKERS


@pytest.mark.parametrize(
    ("config", "measured"),
    [("feed_loader_0", 12), ("feed_loader_2", 6), ("loss_item_every_1", 12), ("loss_item_every_10", 2)],
)
def test_a_step_with_something_in_one_of_several_is_the_mean_of_so_many(
    ranks: RankSet, config: str, measured: int
) -> None:
    """12 steps: of two workers a round has two, and 20 steps where every tenth reads the loss."""
    more: dict[str, Any] = {"precision_percent": 1e-9, "check_gradients": True}
    (answer,) = trained(ranks, config, workload=":steady", world="1cpu", steps=12, **more)
    assert len(answer.step_s) == measured


@pytest.mark.parametrize("workload", STARVED)
def test_profiled_steps_wait_as_measured_ones_do(ranks: RankSet, workload: str) -> None:
    """Batches loaded while the profiler started do not count."""

    def step_s() -> float:
        found = fed(ranks, workload, steps=1, profile=4).breakdown
        assert found is not None
        step = over_ranks([found])
        assert len(step.ranks[0].steps) % WORKERS == 0
        return step.step_ms / 1e3

    assert_as_long_as_the_workers(workload, step_s)
