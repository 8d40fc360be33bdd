"""The names by which tests reach code in the ranks: each resolves."""

import importlib
import inspect
import json
import shlex

import pytest

from fixtures.gradients.cases.checks import Check
from fixtures.gradients.cases.scenarios import SCENARIOS
from fixtures.gradients.replay import command
from fixtures.matrix.lookup import load_any
from fixtures.matrix.promises import PROMISES


@pytest.mark.parametrize("check", Check)
def test_a_check_is_a_function_of_a_rank(check: Check) -> None:
    function = load_any(check.path)
    assert function.__module__ == check.path.partition(":")[0]
    assert next(iter(inspect.signature(function).parameters)) == "ctx"


@pytest.mark.parametrize("promise", PROMISES.values(), ids=PROMISES)
@pytest.mark.parametrize(("field", "parameters"), [("oracle", 3), ("memory_oracle", 2)])
def test_an_oracle_is_a_function_of_a_step_or_of_memories(promise: object, field: str, parameters: int) -> None:
    if (name := getattr(promise, field)) is not None:
        assert len(inspect.signature(load_any(f"fixtures.gradients.checks.{name}")).parameters) == parameters


def test_every_scenario_has_the_function_that_runs_it() -> None:
    runs = importlib.import_module("fixtures.gradients.checks.scenarios").RUNS
    assert {scenario.run for scenario in SCENARIOS.values() if scenario.refused is None} == set(runs)


@pytest.mark.parametrize("check", Check)
def test_a_command_names_its_check(check: Check) -> None:
    *_, world, function, arguments = shlex.split(command("2cpu", check, {"seed": 0}))
    assert (world, Check(function), json.loads(arguments)) == ("2cpu", check, {"seed": 0})
