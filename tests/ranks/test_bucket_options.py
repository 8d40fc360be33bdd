"""DDP options that should make several buckets do so even for the small models of the gradient tests."""

import pytest

from fixtures.gradients.checks.ddp_options import DDP_OPTIONS, DdpOption
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World


@pytest.mark.parametrize("option", DDP_OPTIONS.values(), ids=DDP_OPTIONS)
def test_a_cap_makes_several_buckets(two_ranks: RankSets, option: DdpOption) -> None:
    if reason := option.why_not():
        pytest.skip(reason)
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    answers = ranks.run(
        World(backend="gloo", size=2),
        "tests.ranks.rank_buckets:bucket_bytes",
        {"option": option.name},
        doing=f"buckets under {option.name}",
    )
    capped = any(name.startswith("bucket_cap_mb") for name in option.arguments)
    assert (len(answers[0]["bytes"]) > 3) == capped
