"""The names by which tests reach checks in the ranks: each resolves."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from fixtures.gradients import checks
from fixtures.gradients.fixtures import path_of
from fixtures.gradients.replay import Check, command, path
from fixtures.matrix.lookup import load_any
from tests.gradient_checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=path)
def test_a_command_names_its_check(check: Check) -> None:
    *_, world, name, arguments = shlex.split(command("2cpu", check, {"seed": 0}))
    assert load_any(f"{checks.__name__}.{name}") is load_any(path(check)) is check
    assert (world, json.loads(arguments)) == ("2cpu", {"seed": 0})


def test_a_replay_of_a_users_hook_has_the_path_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/my code:src")
    here, module = Path(__file__).parents[3], sys.modules[__name__]
    assert path_of("my_project.hooks:hook", module) == "PYTHONPATH='/my code:src' "
    assert path_of(f"{__name__}:hook", module) == f"PYTHONPATH='{here}:/my code:src' "
    assert path_of("bf16", module) == ""
    monkeypatch.delenv("PYTHONPATH")
    assert path_of("my_project.hooks:hook", module) == ""
