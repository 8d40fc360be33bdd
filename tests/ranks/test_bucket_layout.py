"""The bucket layout that advice predicts equals DDP's; DDP options that should make several buckets do so."""

import pytest

from fixtures.gradients.cases import DDP_OPTIONS, DdpOption
from fixtures.launch.rank_set import RankSet
from fixtures.matrix.configs import CONFIGS
from fixtures.stats.overlap import bucket_layout
from tests.ranks.asking import called, trained


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "bucket_10mb", "static_graph"])
def test_the_layout_is_that_of_ddp(ranks: RankSet, config: str) -> None:
    result = trained(ranks, config)[0]
    layout = bucket_layout([size for size, _ in reversed(result.gradients)], CONFIGS[config].bucket_cap_mb)
    assert len(layout) == len(result.bucket_bytes)
    assert layout == pytest.approx(result.bucket_bytes, rel=0.05)  # gradients of a layer may change places


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
