"""Bare all-reduces timed in live ranks over gloo."""

from fixtures.launch.protocol import AllReduceRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World


def test_a_launch_times_each_all_reduce(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = AllReduceRequest(collective="all_reduce_4mb", steps=7, warmup=2)
    results = ranks.ask(World(backend="gloo", size=2), request, doing="all-reduce")
    assert [len(result.step_s) for result in results] == [7, 7]
    assert min(time for result in results for time in result.step_s) > 4e6 / 100e9  # no memory is that fast
