"""The options of DDP that are to make several buckets do, of as little as the gradient tests have."""

import pytest

from fixtures.matrix.ddp_options import DDP_OPTIONS, DdpOption
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.rank_sets import RankSets


@pytest.mark.parametrize("option", DDP_OPTIONS.values(), ids=DDP_OPTIONS)
def test_a_cap_makes_several_buckets(two_ranks: RankSets, option: DdpOption) -> None:
    if reason := option.why_not():
        pytest.skip(reason)
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    answers = ranks.run(
        World(backend="gloo", size=2),
        "tests.rank_buckets:bucket_bytes",
        {"option": option.name},
        doing=f"buckets under {option.name}",
    )
    capped = any(name.startswith("bucket_cap_mb") for name in option.arguments)
    assert (len(answers[0]["bytes"]) > 3) == capped
