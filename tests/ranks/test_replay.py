"""Replaying the check of a failed gradient test.

That of a wrong hook is replayed with the command that a run prints in tests/runs/test_own_hooks.py.
"""

import pytest

from fixtures.gradients.replay import replay


def test_a_command_checks_the_scenario_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"hook": "bf16", "scenario": "group_of_all", "option": "default", "kinds": ["normal"], "seed": 0}
    assert replay("2cpu", "scenarios:check", arguments) == 0
    assert capsys.readouterr().out == "right\n"
