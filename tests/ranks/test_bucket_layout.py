"""DDP options that should make several buckets do so, and DDP's logger changes no bucket."""

import pytest

from fixtures.gradients.cases import DDP_OPTIONS, DdpOption
from fixtures.launch.rank_sets import RankSet
from tests.ranks.asking import called, trained


@pytest.mark.parametrize("option", DDP_OPTIONS.values(), ids=DDP_OPTIONS)
def test_a_cap_makes_several_buckets_of_the_small_models_of_the_gradient_tests(
    ranks: RankSet, option: DdpOption
) -> None:
    if reason := option.why_not():
        pytest.skip(reason)
    answers = called(ranks, "rank_buckets:bucket_bytes", option=option.name)
    capped = any(name.startswith("bucket_cap_mb") for name in option.arguments)
    assert (len(answers[0]["bytes"]) > 3) == capped


@pytest.mark.parametrize("option", ["default", "bucket_1kb", "static_graph", "bucket_view"])
def test_ddp_trains_the_same_when_its_logger_is_ended(ranks: RankSet, option: str) -> None:
    for answer in called(ranks, "rank_buckets:steps_without_logging", option=option):
        ended, always = zip(*answer["iterations"], strict=True)
        assert (ended[-1], always[-1]) == (ended[3], always[3] + 3)
        assert answer["same gradients"]
        assert answer["bytes"][0] == answer["bytes"][1]


def test_ddp_is_given_the_planted_bucket_for_its_workload_alone(ranks: RankSet) -> None:
    planted, plain = (
        trained(ranks, "ddp_default", workload=f"studies.planted:vit_tiny__{size}__1")[0].bucket_bytes
        for size in ("100mb", "0us")
    )
    assert planted == [sum(plain)]
    assert len(plain) > 1
