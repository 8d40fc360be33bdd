"""Replaying the check of a failed gradient test, also with a command that the previous release printed.

That of a wrong hook is replayed with the command that a run prints in tests/runs/test_own_hooks.py.
"""

import json
import sys

import pytest

from tests.command_line import run


@pytest.mark.parametrize(
    ("module", "function", "scenario", "hook", "exit_code", "output"),
    [
        ("fixtures.gradients.replay", "scenarios:check", "scenario", "bf16", 0, "right\n"),
        (
            *("fixtures.judge.again", "ways:check", "way", "tests.hooks_for_tests:not_divided"),
            *(1, "rank 0, normal, step 0: delivers 2.00 x the mean"),
        ),
    ],
    ids=["right", "former-and-wrong"],
)
def test_a_command_checks_the_scenario_again(
    module: str, function: str, scenario: str, hook: str, exit_code: int, output: str
) -> None:
    arguments = {"hook": hook, scenario: "group_of_all", "option": "default", "kinds": ["normal"], "seed": 0}
    outcome = run(sys.executable, "-m", module, "2cpu", function, json.dumps(arguments))
    assert outcome.exit_code == exit_code, outcome.errors
    assert outcome.output.startswith(output)
