"""The names by which tests reach checks in the ranks: each resolves."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from fixtures.gradients.cases import SCENARIOS
from fixtures.gradients.fixtures import path_of
from fixtures.gradients.in_rank import parameters, scenarios
from fixtures.gradients.replay import command, path
from fixtures.matrix.lookup import load_any
from tests.gradient_checks import CHECKS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("check", CHECKS)
def test_a_command_names_its_check(check: str) -> None:
    *_, world, name, arguments = shlex.split(command("2cpu", check, {"seed": 0}))
    assert callable(load_any(path(name)))
    assert (world, json.loads(arguments)) == ("2cpu", {"seed": 0})


def test_every_check_scenario_and_update_that_is_asked_for_exists() -> None:
    asking = [*ROOT.glob("perf/test_gradients*.py"), ROOT / "fixtures/gradients/fixtures.py"]
    asked = re.findall(r'"(\w+:\w+)"', "".join(file.read_text() for file in asking))
    assert set(asked) == set(CHECKS)
    assert [scenario for scenario in SCENARIOS.values() if not hasattr(scenarios, scenario.run)] == []
    ways = (ROOT / "perf/test_gradients_ways.py").read_text()
    assert [name for name in parameters.UPDATES if f'"{name}"' not in ways] == []


def test_a_replay_of_a_users_hook_has_the_path_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/my code:src")
    module = sys.modules[__name__]
    assert path_of("my_project.hooks:hook", module) == "PYTHONPATH='/my code:src' "
    assert path_of(f"{__name__}:hook", module) == f"PYTHONPATH='{ROOT}:/my code:src' "
    assert path_of("bf16", module) == ""
    monkeypatch.delenv("PYTHONPATH")
    assert path_of("my_project.hooks:hook", module) == ""
