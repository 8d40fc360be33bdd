"""A planted bucket reaches DDP in live ranks."""

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world


def bucket_bytes(two_ranks: RankSets, workload: str) -> list[int]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = TrainRequest(
        workload=f"studies.planted:{workload}", config="ddp_default", world="2cpu", steps=1, warmup=4
    )
    return ranks.ask(parse_world("2cpu"), request, doing=workload)[0].bucket_bytes


def test_ddp_is_given_the_planted_bucket_for_its_workload_alone(two_ranks: RankSets) -> None:
    planted, plain = (bucket_bytes(two_ranks, name) for name in ("vit_tiny__100mb__1", "vit_tiny__0us__1"))
    assert planted == [sum(plain)]
    assert len(plain) > 1
