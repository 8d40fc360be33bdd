"""The cases of the gradient tests and their replay."""

import json
import re
import shlex
import sys
from math import log2
from pathlib import Path

import pytest

from fixtures.gradients.cases import DDP_OPTIONS, FEEDBACK_OPTIONS, LINEAR_RANKS, SCENARIOS, draws, guarantee, integers
from fixtures.gradients.fixtures import every_check, path_of
from fixtures.gradients.in_rank import parameters, scenarios
from fixtures.gradients.replay import command, path
from fixtures.gradients.tested_hooks import hooks_of
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.lookup import load_any
from fixtures.matrix.worlds import World
from tests.gradient_checks import CHECKS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("check", CHECKS)
def test_a_command_names_its_check(check: str) -> None:
    *_, world, name, arguments = shlex.split(command("2cpu", check, {"seed": 0}))
    assert callable(load_any(path(name)))
    assert (world, json.loads(arguments)) == ("2cpu", {"seed": 0})


def test_every_check_scenario_and_update_that_is_asked_for_exists() -> None:
    asking = [*ROOT.glob("perf/test_gradients*.py"), ROOT / "fixtures/gradients/fixtures.py"]
    assert set(re.findall(r'"(\w+:\w+)"', "".join(file.read_text() for file in asking))) == set(CHECKS)
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


# The checks of a hook that its promise implies


WORLD = World(backend="gloo", size=2)
MEAN, LATER = "tests.hooks_for_tests:lossless", "tests.hooks_for_tests:remembers"


def asked(hook: str, check: str, argument: str = "option") -> list[object]:
    """The values of an argument with which a hook has this check."""
    return [arguments.get(argument) for kind, arguments in every_check(hook, WORLD) if kind == check]


def test_a_hook_is_checked_under_every_option_and_in_each_scenario_once() -> None:
    options = [name for name, option in DDP_OPTIONS.items() if not option.why_not()]
    assert asked(MEAN, "hook_steps:check") == options
    found = list(zip(asked(MEAN, "scenarios:check", "scenario"), asked(MEAN, "scenarios:check"), strict=True))
    assert len(found) == len(set(found)) > 20


def test_bytes_many_steps_a_large_bucket_and_error_feedback_are_checked_once() -> None:
    for check in ("wire:wire", "hook_steps:many", "wire:large"):
        assert asked(MEAN, check, "hook") == [MEAN]
    assert asked(LATER, "on_average:error_feedback") == list(FEEDBACK_OPTIONS)
    assert asked(MEAN, "on_average:error_feedback") == []


# The chance of the guarantee for linear hooks: no sum is rounded, and enough draws are compared


@pytest.mark.parametrize(("wire", "bits"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
@pytest.mark.parametrize("ranks", LINEAR_RANKS)
def test_the_sum_of_the_largest_integers_is_exact_and_the_chance_is_small(wire: str, bits: int, ranks: int) -> None:
    assert ranks * integers(wire, ranks) == 2**bits
    assert draws(wire, ranks) * log2(2 * integers(wire, ranks) + 1) >= 20


@pytest.mark.parametrize(("hook", "bits"), [("allreduce", 57), ("fp16", 24), ("bf16", 21)])
def test_the_guarantee_has_the_worst_chance_of_all_worlds(hook: str, bits: int) -> None:
    assert guarantee(find_hook(hook)) == f"exact at 2, 4, 8, 64 ranks (chance of a wrong linear hook 2^-{bits})"


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
