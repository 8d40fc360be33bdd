"""What the promises of the suite's own hooks leave open."""

import math

import pytest

from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.suite_hooks import SUITE_HOOKS
from fixtures.matrix.worlds import World


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("hook", [hook.name for hook in SUITE_HOOKS if not hook.needs_gpu])
def test_what_is_not_finite_arrives_and_is_not_remembered(two_ranks: RankSets, hook: str, value: float) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"hook": hook, "value": value}
    answers = ranks.run(
        World(backend="gloo", size=2), "tests.ranks.rank_suite_hooks:not_finite", arguments, doing=f"{hook}, {value}"
    )
    for answer in answers:
        first, *later = answer["finite"]
        assert first < 1
        assert later == [1, 1, 1]
