"""The names by which tests reach checks in the ranks: each resolves."""

import json
import shlex

import pytest

from fixtures.gradients import checks
from fixtures.gradients.replay import Check, command, path
from fixtures.matrix.lookup import load_any
from tests.gradient_checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=path)
def test_a_command_names_its_check(check: Check) -> None:
    *_, world, name, arguments = shlex.split(command("2cpu", check, {"seed": 0}))
    assert load_any(f"{checks.__name__}.{name}") is load_any(path(check)) is check
    assert (world, json.loads(arguments)) == ("2cpu", {"seed": 0})
