"""The gradient error beside a config's speed: of the real workload's gradient, on live ranks."""

from collections import Counter

import pytest

from fixtures.judge.measurement import Launch
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World, parse_world
from fixtures.ranks.rank_sets import RankSets


def error_of(two_ranks: RankSets, config: str, world: str = "2cpu") -> float | None:
    (launch,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"workload": "vit_tiny", "config": config, "world": world, "steps": 1, "warmup": 4, "compare": True}
    where: World = parse_world(world)
    answers = launch.run(where, "fixtures.ranks.training:train", arguments, doing=config)
    return Launch.of(answers, Counter()).gradient_error


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "static_graph_bucket_view", "bucket_10mb"])
def test_a_lossless_config_delivers_the_mean(two_ranks: RankSets, config: str) -> None:
    error = error_of(two_ranks, config)
    assert error is not None
    assert error <= 2**-23  # two roundings of float32


@pytest.mark.parametrize(("config", "unit_roundoff"), [("bf16", 2**-8), ("fp16", 2**-11)])
def test_half_precision_errs_by_about_its_unit_roundoff(two_ranks: RankSets, config: str, unit_roundoff: float) -> None:
    error = error_of(two_ranks, config)
    assert error is not None
    assert unit_roundoff / 20 < error < 3 * unit_roundoff


@pytest.mark.parametrize("config", ["no_comm", "powersgd_rank1"])
def test_what_is_not_the_mean_errs_by_a_good_part_of_it(two_ranks: RankSets, config: str) -> None:
    error = error_of(two_ranks, config)
    assert error is not None
    assert error > 0.1


def test_without_ddp_there_is_nothing_to_compare(two_ranks: RankSets) -> None:
    assert error_of(two_ranks, "single", "1cpu") is None
