"""Training the small problem shows what a hook does to the loss."""

from fixtures.extras.loss.small_problem import effect_in
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.stats.thresholds import MOST_EXCESS_PERCENT
from tests.mutants import hooks as mutants


def test_training_shows_what_keeps_a_third(three_ranks: RankSets) -> None:
    (ranks,) = three_ranks.of(INTERCONNECTS["native"])
    found = effect_in(ranks, mutants.bf16_keeps_a_third.name, parse_world("2cpu"))
    assert found.least_excess_percent > MOST_EXCESS_PERCENT
