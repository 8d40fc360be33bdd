"""Replaying the check of a failed gradient test.

That of a wrong hook is replayed with the command that a run prints in tests/runs/test_own_hooks.py.
"""

import json
import sys

from tests.command_line import run


def test_a_command_checks_the_scenario_again() -> None:
    arguments = {"hook": "bf16", "scenario": "group_of_all", "option": "default", "kinds": ["normal"], "seed": 0}
    module = "fixtures.gradients.replay"
    outcome = run(sys.executable, "-m", module, "2cpu", "scenarios:check", json.dumps(arguments))
    assert outcome.exit_code == 0, outcome.errors
    assert outcome.output == "right\n"
