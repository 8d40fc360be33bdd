"""Gradient checks that exclude a candidate of ``--tune``."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.extras.tune.battery import Battery
from fixtures.extras.tune.tuning import Cell
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from tests.builders import effect_of

CELL = Cell(
    reference="vit_tiny",
    workload=WORKLOADS["vit_tiny"],
    world=parse_world("2cpu"),
    interconnect=INTERCONNECTS["native"],
)


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("powersgd_rank1", "the loss of a small problem is 20 % higher, over 1 %"),
        ("tests.hooks_for_tests:learns_nothing", "the loss of a small problem is 20 % higher, over 1 %"),
        ("tests.hooks_for_tests:states_its_loss", None),
    ],
)
def test_a_lossy_hook_may_cost_what_its_user_states(hook: str, why: str | None) -> None:
    ranks: Any = None
    battery = Battery(train_small_problem=lambda ranks, hook, world: effect_of(hook, excess_percent=20.0))
    assert battery._harm(CELL, replace(CONFIGS["bf16"], name=hook, hook=hook), ranks) == why
