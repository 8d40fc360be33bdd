"""Remeasurement of slower tests in whole runs; tests/unit/session/test_remeasure.py shows how often and when."""

import json
from pathlib import Path

import pytest

from tests.forked import perf as pytest_perf
from tests.runs.burst import LAUNCHES, PAUSE_S

PERF = ("perf/test_scaling.py", "-k=single", "--steps=8", "--warmup=4", "--explain=none")
STEADY = "--workload=tests.workloads_for_tests:steady"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one record."""
    folder = tmp_path_factory.mktemp("baselines")
    saved = pytest_perf(folder, *PERF, STEADY, "--launches=2", "--benchmark-save=before")
    assert saved.exit_code == 0, saved.output
    return folder


def test_a_burst_is_waited_out(storage: Path, tmp_path: Path) -> None:
    """It slows the first launches, and those after the last test."""
    asked = (*PERF, STEADY, f"--launches={LAUNCHES // 2}", "--recheck=30", f"--benchmark-json={tmp_path / 'run.json'}")
    waited = pytest_perf(storage, "-p", "tests.runs.burst", *asked)
    assert waited.exit_code == 0, waited.output
    assert f"launched again in new processes after {PAUSE_S} s (--recheck: 30 s left)" in waited.output
    (benchmark,) = json.loads((tmp_path / "run.json").read_text())["benchmarks"]
    first, (second, third) = (
        benchmark["extra_info"]["launch_medians_s"],
        benchmark["extra_info"]["remeasured_launch_medians_s"],
    )
    assert first[0] == pytest.approx(second[0]) == pytest.approx(2 * third[0])
    assert benchmark["stats"]["median"] == pytest.approx(first[0], rel=0.1)  # not the fastest
    assert benchmark["extra_info"]["verdict"]["word"] == "ok"


def test_without_time_to_wait_it_is_slower(storage: Path) -> None:
    outcome = pytest_perf(storage, "-p", "tests.runs.burst", *PERF, STEADY, f"--launches={LAUNCHES // 2}")
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert outcome.output.count("launched again") == 1
