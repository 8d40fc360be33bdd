"""Hooks that do something besides or later are caught by the check named for each; unusual sound ones pass all."""

import pytest

from fixtures.gradients.checks import ddp_options, embedding, error_feedback, many_steps, unbiased, wire
from fixtures.gradients.checks.ddp_options import SHAPES, kinds_for
from fixtures.gradients.replay import Check
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import Hook
from fixtures.matrix.lookup import load_any
from fixtures.matrix.worlds import World
from tests.mutants.promises import SOUND_IN
from tests.mutants.side_effects import CAUGHT_BY, SHAPES_FOR, SOUND
from tests.mutants.test_hooks import ask, short

TWO = World(backend="gloo", size=2)
ARGUMENTS: dict[Check, dict[str, object]] = {
    ddp_options.check: {
        "option": "bucket_1kb",
        "shapes": [list(shape) for shape in SHAPES],
        "kinds": ["mixed"],
        "seed": 0,
    },
    many_steps.check: {"kind": "mixed", "steps": 300, "seed": 0},
    wire.wire: {},
    wire.large: {},
    embedding.check: {},
    error_feedback.check: {"option": "bucket_1kb"},
    unbiased.check: {},
}


def arguments(check: Check, hook: Hook) -> dict[str, object]:
    kinds = {"kinds": kinds_for(eight_bits=hook.eight_bits, option="bucket_1kb")}
    shapes = {"shapes": [list(shape) for shape in SHAPES_FOR[hook.name]]} if hook.name in SHAPES_FOR else {}
    return ARGUMENTS[check] | (kinds if check is ddp_options.check else {}) | shapes


@pytest.mark.parametrize("name", CAUGHT_BY, ids=lambda name: name.partition(":")[2])
def test_a_hook_that_does_something_else_is_caught(three_ranks: RankSets, name: str) -> None:
    check = CAUGHT_BY[name]
    assert ask(three_ranks, check, load_any(name), TWO, **arguments(check, load_any(name)))


@pytest.mark.parametrize(("hook", "check"), SOUND_IN, ids=short)
def test_a_hook_that_keeps_another_promise_is_not(three_ranks: RankSets, hook: Hook, check: Check) -> None:
    assert ask(three_ranks, check, hook, TWO, **arguments(check, hook)) == []


@pytest.mark.parametrize("check", [ddp_options.check, wire.wire], ids=short)
@pytest.mark.parametrize("hook", SOUND, ids=short)
def test_an_unusual_hook_is_not(three_ranks: RankSets, hook: Hook, check: Check) -> None:
    assert ask(three_ranks, check, hook, TWO, **ARGUMENTS[check]) == []


@pytest.mark.parametrize("check", [wire.large, embedding.check], ids=short)
def test_a_large_bucket_is_no_fault(three_ranks: RankSets, check: Check) -> None:
    assert ask(three_ranks, check, SOUND[0], TWO) == []


@pytest.mark.parametrize("hook", SOUND[-2:], ids=short)
def test_many_steps_are_no_fault(three_ranks: RankSets, hook: Hook) -> None:
    assert ask(three_ranks, many_steps.check, hook, TWO, **ARGUMENTS[many_steps.check]) == []
