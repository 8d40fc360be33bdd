"""Exposed communication measured in three ways: when they disagree, and the no_sync way on live ranks."""

from collections import Counter

import pytest

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.configs import THROUGHPUT
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from fixtures.records.measurement import Launch

# Live ranks


def launched(two_ranks: RankSets, workload: str, config: str, world: str = "2cpu") -> Launch:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = TrainRequest(workload=workload, config=config, world=world, steps=5, warmup=4, time_no_sync=True)
    return Launch.of(ranks.ask(parse_world(world), request, doing=config), Counter())


LATE = "tests.workloads_for_tests:late"


def test_waiting_for_a_rank_that_is_20_ms_late_is_exposed(two_ranks: RankSets) -> None:
    exposed_s = launched(two_ranks, LATE, "ddp").exposed_s
    assert exposed_s is not None
    assert exposed_s > 0.008  # mean over the ranks; the late rank waits for nobody


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
