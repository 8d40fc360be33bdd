"""What the promises of the suite's own hooks leave open."""

import math

import pytest

from fixtures.gradients.replay import path, violations
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world
from tests.extras.hooks.broken_hooks import HIDES_NAN
from tests.extras.hooks.sound_hooks import BF16, INT8, INT8_FP32_VECTORS
from tests.ranks.test_wire_bytes import GRADIENTS, wire

TWO = parse_world("2cpu")
NOT_FINITE = {"option": "default", "kinds": ["non_finite"]}


def found(ranks: RankSet, check: str, hook: str, **arguments: object) -> list[str]:
    return violations(ranks.run(TWO, path(check), {"hook": hook, **arguments}, doing=hook))


@pytest.mark.parametrize("hook", ["fp8_all_to_all", BF16.name, INT8.name, INT8_FP32_VECTORS.name])
def test_what_is_not_finite_arrives_is_not_remembered_and_breaks_no_promise(ranks: RankSet, hook: str) -> None:
    for value in (math.inf, math.nan):
        for answer in ranks.run(
            TWO, "tests.extras.hooks.ranks.rank_not_finite:not_finite", {"hook": hook, "value": value}, doing=hook
        ):
            first, *later = answer["finite"]
            assert first < 1
            assert later == [1, 1, 1]
    assert found(ranks, "hook_steps:check", hook, **NOT_FINITE) == []


def test_what_hides_that_a_gradient_is_not_finite_is_caught(ranks: RankSet) -> None:
    assert found(ranks, "hook_steps:check", HIDES_NAN.name, **NOT_FINITE)


def test_a_hook_with_a_memory_keeps_no_more_from_step_to_step(ranks: RankSet) -> None:
    assert found(ranks, "hook_steps:many", INT8.name, steps=1) == []


# A byte an element and a scale a block.
EIGHT_BITS = GRADIENTS // 2 * (256 + 4) // 256


@pytest.mark.parametrize(
    ("hook", "expected"),
    [("fp8_all_to_all", EIGHT_BITS)],
)
def test_what_is_predicted_crosses_the_wire(ranks: RankSet, hook: str, expected: int) -> None:
    answer = wire(ranks, f"{hook}-bucket_25mb")
    assert answer["predicted"] == expected
    assert answer["counted"] == pytest.approx(answer["predicted"], rel=0.03)
