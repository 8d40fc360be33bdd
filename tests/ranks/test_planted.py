"""A planted bucket reaches DDP in live ranks."""

from fixtures.launch.rank_sets import RankSet
from tests.ranks.asking import trained


def test_ddp_is_given_the_planted_bucket_for_its_workload_alone(ranks: RankSet) -> None:
    planted, plain = (
        trained(ranks, "ddp_default", workload=f"studies.planted:vit_tiny__{size}__1")[0].bucket_bytes
        for size in ("100mb", "0us")
    )
    assert planted == [sum(plain)]
    assert len(plain) > 1
