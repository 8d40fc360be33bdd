"""The bucket layout that advice predicts equals DDP's."""

import pytest

from fixtures.extras.predict.prediction import bucket_layout
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.worlds import INTERCONNECTS
from tests.ranks.asking import trained


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "bucket_10mb", "static_graph"])
def test_the_layout_is_that_of_ddp(two_ranks: RankSets, config: str) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    result = trained(ranks, config)[0]
    layout = bucket_layout([size for size, _ in reversed(result.gradients)], CONFIGS[config].bucket_cap_mb)
    assert len(layout) == len(result.bucket_bytes)
    assert layout == pytest.approx(result.bucket_bytes, rel=0.05)  # gradients of a layer may change places
