"""The hooks that a test checks, by its parameters."""

import pytest

from fixtures.gradients.tested_hooks import hooks_of


@pytest.fixture
def gradient_ranks() -> None:
    """Of a test of gradients; this one needs none."""


@pytest.mark.parametrize("hook", ["bf16", len])
@pytest.mark.parametrize("git_hook", ["commit-msg"])
@pytest.mark.usefixtures("gradient_ranks")
def test_a_users_own_test_may_have_parameters_of_other_values(
    request: pytest.FixtureRequest, hook: object, git_hook: str
) -> None:
    assert hooks_of(request.node) == ["bf16"] * (hook == "bf16") * bool(git_hook)
