"""A loader whose workers are too slow: several hand over a batch each at about the same time, then all steps wait."""

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from fixtures.explain.breakdown import RankBreakdown
from fixtures.explain.ranks_breakdown import Breakdown, over_ranks
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import loader_workers
from fixtures.ranks.rank_sets import RankSets

WORLD = parse_world("1cpu")
WORKERS = loader_workers(WORLD)
# What the workers of a workload need for a batch, in seconds. Its step alone takes 100 ms.
STARVED = {"starved": 0.4, "just_starved": 0.13}


def run(ranks: RankSets, function: str, **arguments: Any) -> Any:
    (launch,) = ranks.of(INTERCONNECTS["native"])
    return launch.run(WORLD, function, arguments, doing="being starved")


def trained(ranks: RankSets, workload: str, **more: Any) -> dict[str, Any]:
    reference = f"tests.workloads_for_tests:{workload}"
    arguments = {"workload": reference, "config": "feed_loader", "world": WORLD.name, "warmup": 1, "compare": False}
    (found,) = run(ranks, "fixtures.ranks.training:train", **arguments, **more)
    return dict(found)


@pytest.mark.parametrize("workload", STARVED)
def test_a_measured_step_is_as_long_as_the_workers_take(two_ranks: RankSets, workload: str) -> None:
    """Without what lay ready after the first step, and without steps that pass while another one waits for all."""
    answer = trained(two_ranks, workload, steps=2 * WORKERS)
    assert len(answer["step_s"]) == 2
    assert median(answer["step_s"]) == pytest.approx(STARVED[workload], rel=0.15)


def test_fewer_steps_than_workers_are_a_round(two_ranks: RankSets) -> None:
    assert len(trained(two_ranks, "just_starved", steps=1)["step_s"]) == 1


def profiled(ranks: RankSets, workload: str, trace: Path) -> Breakdown:
    trained(ranks, workload, steps=1, traces=[str(trace)])
    found = run(ranks, "fixtures.explain.profiled_rank:break_down_trace", traces=[str(trace)], keep=True)
    return over_ranks([RankBreakdown.from_json(one) for one in found])


@pytest.mark.parametrize("workload", STARVED)
def test_profiled_steps_wait_as_measured_ones_do(two_ranks: RankSets, workload: str, tmp_path: Path) -> None:
    """Without what was loaded while the profiler started."""
    step = profiled(two_ranks, workload, tmp_path / "rank0.json")
    assert len(step.ranks[0].steps) % WORKERS == 0
    assert step.step_ms == pytest.approx(1e3 * STARVED[workload], rel=0.15)
