"""Exposed communication by three ways: where they disagree, and the one under no_sync on live ranks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.explain.exposed import Exposed
from fixtures.judge.measurement import Launch
from fixtures.matrix.configs import THROUGHPUT
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.rank_sets import RankSets

times_ms = st.floats(-10, 1000)


def test_a_disagreement_has_all_ways_and_its_size() -> None:
    exposed = Exposed(step_ms=94, profiler_ms=10, no_sync_ms=8, no_comm_ms=7.5)
    expected = "exposed communication is 10.00 ms by profiler, 8.00 ms by no_sync, 7.50 ms by no_comm"
    assert exposed.disagreement() == f"{expected}: they disagree by 25 %"


@pytest.mark.parametrize(
    "exposed",
    [
        Exposed(step_ms=94, profiler_ms=20, no_sync_ms=17.1),  # 14.5 %
        Exposed(step_ms=94, profiler_ms=2, no_sync_ms=0.2),  # 90 %, but 1.9 % of the step
        Exposed(step_ms=94, profiler_ms=20),
        Exposed(step_ms=94, profiler_ms=0, no_sync_ms=0),
    ],
)
def test_what_is_close_or_small_or_alone_is_not_said(exposed: Exposed) -> None:
    assert exposed.disagreement() is None


@given(ways=st.tuples(times_ms, times_ms, times_ms), step_ms=st.floats(1, 1000))
def test_what_is_said_is_over_both_bounds(ways: tuple[float, float, float], step_ms: float) -> None:
    exposed = Exposed(step_ms=step_ms, profiler_ms=ways[0], no_sync_ms=ways[1], no_comm_ms=ways[2])
    apart_ms = max(ways) - min(ways)
    said = apart_ms > 0.15 * max(map(abs, ways)) and apart_ms > 0.02 * step_ms
    assert (exposed.disagreement() is not None) == said


# Live


def launched(two_ranks: RankSets, workload: str, config: str, world: str = "2cpu") -> Launch:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"workload": workload, "config": config, "world": world, "steps": 5, "warmup": 4, "compare": True}
    answers = ranks.run(parse_world(world), "fixtures.ranks.training:train", arguments, doing=config)
    return Launch.of(answers, Counter())


LATE = "tests.workloads_for_tests:late"


def test_waiting_for_a_rank_that_is_20_ms_late_is_exposed(two_ranks: RankSets) -> None:
    exposed_s = launched(two_ranks, LATE, "ddp").exposed_s
    assert exposed_s is not None
    assert exposed_s > 0.008  # mean over the ranks: the late one waits for nobody


def test_without_communication_nothing_is(two_ranks: RankSets) -> None:
    exposed_s = launched(two_ranks, LATE, "no_comm").exposed_s
    assert exposed_s is not None
    assert abs(exposed_s) < 0.008


@pytest.mark.parametrize("config", THROUGHPUT)
def test_every_config_has_a_backward_pass_of_its_own(two_ranks: RankSets, config: str) -> None:
    alone_s = launched(two_ranks, "vit_tiny", config).backward_alone_s
    assert alone_s is not None
    assert alone_s > 0.0005


def test_one_rank_has_nothing_to_leave_out(two_ranks: RankSets) -> None:
    assert launched(two_ranks, "vit_tiny", "ddp", "1cpu").exposed_s is None
