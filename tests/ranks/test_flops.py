"""Operations are counted by live ranks next to DDP, once, and change nothing that follows."""

from dataclasses import replace

from fixtures.launch.protocol import TrainRequest, TrainResult
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world


def trained(two_ranks: RankSets, request: TrainRequest) -> list[TrainResult]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    return ranks.ask(parse_world(request.world), request, doing=request.config)


def test_operations_are_counted_after_all_else_and_are_those_of_the_model_without_ddp(two_ranks: RankSets) -> None:
    request = TrainRequest(
        workload="vit_tiny",
        config="static_graph_bucket_view",
        world="2cpu",
        steps=1,
        warmup=4,
        check_gradients=True,
        count_flops=True,
    )
    answers = trained(two_ranks, request)
    alone = trained(two_ranks, replace(request, config="single", world="1cpu"))
    counted = [answer.flops_per_sample for answer in (*answers, *alone)]
    assert counted[0] is not None
    assert counted[0]["matrix product"] > 20 * counted[0]["convolution"] > 0
    assert counted == counted[:1] * 3
    again = trained(two_ranks, replace(request, config="ddp_default"))  # the same workload and world
    assert [answer.flops_per_sample for answer in again] == counted[:2]
    assert [answer.gradient_lossless for answer in again] == [True, True]
    assert trained(two_ranks, replace(request, count_flops=False))[0].flops_per_sample is None
