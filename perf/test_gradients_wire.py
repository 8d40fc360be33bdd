"""Does every hook send as few bytes as it promises?   pytest perf -k gradients_wire"""

import pytest

from fixtures.gradients.fixtures import PromiseCheck, unsupported


@pytest.mark.two_worlds
@pytest.mark.unless(reason=unsupported)
def test_gradients_wire(promise: PromiseCheck, gradient_world: str, sending_hook: str) -> None:
    promise(gradient_world, "wire:wire", hook=sending_hook)
