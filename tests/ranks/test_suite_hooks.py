"""What the promises of the suite's own hooks leave open."""

import math

import pytest

from fixtures.gradients.checks import ddp_options, many_steps
from fixtures.gradients.replay import path, violations
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.suite_hooks import SUITE_HOOKS
from fixtures.matrix.worlds import World
from tests.mutants.suite_hooks import HIDES_NAN

WORLD = World(backend="gloo", size=2)


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("hook", [hook.name for hook in SUITE_HOOKS if not hook.needs_gpu])
def test_what_is_not_finite_arrives_and_is_not_remembered(two_ranks: RankSets, hook: str, value: float) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"hook": hook, "value": value}
    answers = ranks.run(WORLD, "tests.ranks.rank_suite_hooks:not_finite", arguments, doing=f"{hook}, {value}")
    for answer in answers:
        first, *later = answer["finite"]
        assert first < 1
        assert later == [1, 1, 1]


def of_not_finite(two_ranks: RankSets, hook: str) -> list[str]:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    shapes = [*ddp_options.SHAPES]
    arguments = {"hook": hook, "option": "default", "shapes": shapes, "kinds": ["non_finite"], "seed": 0}
    return violations(ranks.run(WORLD, path(ddp_options.check), arguments, doing=hook))


@pytest.mark.parametrize("hook", [hook.name for hook in SUITE_HOOKS if not hook.needs_gpu])
def test_what_is_not_finite_breaks_no_promise(two_ranks: RankSets, hook: str) -> None:
    assert of_not_finite(two_ranks, hook) == []


def test_what_hides_that_a_gradient_is_not_finite_is_caught(two_ranks: RankSets) -> None:
    assert of_not_finite(two_ranks, HIDES_NAN.name)


def test_a_hook_with_a_memory_keeps_no_more_from_step_to_step(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"hook": "int8_all_to_all", "kind": "normal", "steps": 1, "seed": 0}
    assert violations(ranks.run(WORLD, path(many_steps.check), arguments, doing="int8_all_to_all")) == []
