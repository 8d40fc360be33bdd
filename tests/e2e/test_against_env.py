"""``--against-env``: two ranks a side, launched in turn, of which only the other side's have the variable."""

import json
import re
from pathlib import Path

from tests.command_line import QUICK, pytest_perf
from tests.workloads_for_tests import STEP_MS


def test_a_variable_that_makes_steps_longer_is_measured_on_the_other_side_alone(tmp_path: Path) -> None:
    """Steps take 20 ms by default, with the variable 80 ms."""
    outcome = pytest_perf(
        *(tmp_path / "baselines", "perf/test_scaling.py", "-k", "2cpu-ddp]", *QUICK),
        *("--workload", "tests.workloads_for_tests:steady", "--against-env", f"{STEP_MS}=80", "--explain=none"),
        *("--launches=2", "--max-pairs=2", "--false-alarms=50", f"--benchmark-json={tmp_path / 'run.json'}"),
    )
    assert outcome.exit_code == 0, outcome.output
    assert f"starting 2 x 2 ranks and 2 x 2 ranks with {STEP_MS}=80 ..." in outcome.output
    assert f"without against with {STEP_MS}=80: 1 faster\n" in outcome.output
    assert f"differences between the two environments: {STEP_MS} 80 -> unset\n" in outcome.output
    row = r"test_scaling\[steady-2cpu-ddp\] +\d\d\.\d\d +\d{2,3}\.\d\d +\d\d\.\d\d faster +[\d.]+ .* +2 +faster"
    assert re.search(row, outcome.output), outcome.output
    recorded = json.loads((tmp_path / "run.json").read_text())
    assert STEP_MS not in recorded["environment"]["variables"]
    against = recorded["benchmarks"][0]["extra_info"]["against"]
    assert against["variables"] == {STEP_MS: "80"}
    assert min(against["step_s"]) > 0.08
