"""Operations are counted by live ranks next to DDP, once, and change nothing that follows."""

from typing import Any

from fixtures.launch.rank_sets import RankSet
from tests.ranks.asking import trained


def test_operations_are_counted_after_all_else_and_are_those_of_the_model_without_ddp(ranks: RankSet) -> None:
    both: dict[str, Any] = {"check_gradients": True, "count_flops": True}
    answers = trained(ranks, "static_graph_bucket_view", **both)
    alone = trained(ranks, "single", world="1cpu", **both)
    counted = [answer.flops_per_sample for answer in (*answers, *alone)]
    assert counted[0] is not None
    assert counted[0]["matrix product"] > 20 * counted[0]["convolution"] > 0
    assert counted == counted[:1] * 3
    again = trained(ranks, "ddp_default", **both)  # the same workload and world
    assert [answer.flops_per_sample for answer in again] == counted[:2]
    assert [answer.gradient_lossless for answer in again] == [True, True]
    assert trained(ranks, "static_graph_bucket_view", check_gradients=True)[0].flops_per_sample is None
