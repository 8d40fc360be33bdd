"""A loader whose workers are too slow: several hand over a batch each at about the same time, then all steps wait."""

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from fixtures.explain.breakdown import RankBreakdown
from fixtures.explain.ranks_breakdown import over_ranks
from fixtures.matrix.configs import find_config
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import loaded_ahead, loader_workers
from fixtures.ranks.rank_sets import RankSets

WORLD = parse_world("1cpu")
LOADER = find_config("feed_loader")
WORKERS = loader_workers(LOADER, WORLD)
# Two samples of 400 ms, from WORKERS processes at once.
STARVED_S = 0.8 / WORKERS


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "rank0.json"


@pytest.fixture(scope="module")
def answer(two_ranks: RankSets, trace: Path) -> dict[str, Any]:
    (launch,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {
        "workload": "tests.workloads_for_tests:starved",
        "config": LOADER.name,
        "world": WORLD.name,
        "steps": 2 * WORKERS,
        "warmup": 1,
        "compare": False,
        "traces": [str(trace)],
    }
    (found,) = launch.run(WORLD, "fixtures.ranks.training:train", arguments, doing="being starved")
    return dict(found)


def test_a_measured_step_is_as_long_as_the_workers_take(answer: dict[str, Any]) -> None:
    """Without what was loaded before the first step, and without steps that pass while another one waits for all."""
    assert len(answer["step_s"]) == 2
    assert median(answer["step_s"]) == pytest.approx(STARVED_S, rel=0.25)
    assert median(answer["phases_s"]["input"]) > STARVED_S / 2


def test_profiled_steps_wait_as_measured_ones_do(two_ranks: RankSets, answer: dict[str, Any], trace: Path) -> None:
    (launch,) = two_ranks.of(INTERCONNECTS["native"])
    reading = {"traces": [str(trace)], "keep": True}
    found = launch.run(WORLD, "fixtures.explain.profiled_rank:break_down_trace", reading, doing="reading")
    step = over_ranks([RankBreakdown.from_json(one) for one in found])
    assert len(step.ranks[0].steps) % WORKERS == 0
    assert step.step_ms == pytest.approx(1e3 * STARVED_S, rel=0.25)
    assert step.parts_ms["idle"] > step.step_ms / 2


def test_other_feeds_have_nothing_ahead() -> None:
    for feed in ("feed_pinned", "feed_resident", "ddp"):
        assert (loader_workers(find_config(feed), WORLD), loaded_ahead(find_config(feed), WORLD)) == (1, 0)
