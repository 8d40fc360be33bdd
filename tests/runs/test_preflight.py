"""A mistake in a user's workload ends the run before anything is measured, with one line."""

from pathlib import Path

import pytest

from tests.command_line import QUICK
from tests.forked import live_perf
from tests.forked import perf as pytest_perf

OWN = "--workload=tests.workloads_for_tests"


def test_parameters_without_a_gradient_end_the_run_with_what_to_set(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, "perf", "-k", "throughput and 2cpu", f"{OWN}:left_out", *QUICK)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert outcome.output.count("1 of 4 parameters got no gradient on rank 0 (experts.1.weight): set ") == 1
    assert "Workload(find_unused_parameters=True)" in outcome.output
    assert "ms/step" not in outcome.output


def test_without_ddp_no_parameter_needs_a_gradient(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, "perf", "-k", "scaling and single", f"{OWN}:left_out", *QUICK)
    assert outcome.exit_code == 0, outcome.output


def test_a_rank_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    outcome = live_perf(
        tmp_path / "baselines",
        *("perf", "-k", "throughput and 2cpu and ddp_default", f"{OWN}:once_dying", *QUICK, "--explain=none"),
        variables={"TMPDIR": str(tmp_path)},
    )
    assert outcome.exit_code == 0, outcome.output
    assert "one training step of once_dying: rank 1 died of SIGKILL at forward; trying once more" in outcome.output


def test_a_temporary_folder_that_is_gone_is_not_the_workloads_mistake(tmp_path: Path) -> None:
    own = (f"{OWN}:disk_losing", "--workload=tests.ranks.poisons:variable")  # for whose module new ranks start
    outcome = live_perf(
        tmp_path / "baselines",
        *("perf", "-k", "throughput and 2cpu and ddp_default", *own, *QUICK, "--explain=none"),
        variables={"TMPDIR": str(tmp_path)},
    )
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert "IndexError" not in outcome.output + outcome.errors
    assert outcome.output.count("was removed while the run used it: keep TMPDIR as it is until the run ends") >= 2
    assert "--workload tests" not in outcome.errors
