"""Does every hook send as few bytes as it promises?   pytest perf -k gradients_wire"""

import pytest

from fixtures.gradients.cases.checks import Check
from fixtures.gradients.fixtures import PromiseCheck
from fixtures.matrix.hooks import find_hook


@pytest.mark.two_worlds
def test_gradients_wire(promise: PromiseCheck, gradient_world: str, sending_hook: str) -> None:
    if gradient_world.endswith("cpu") and (reason := find_hook(sending_hook).why_not_on_gloo()):
        pytest.skip(reason)
    promise(gradient_world, Check.WIRE, hook=sending_hook)
