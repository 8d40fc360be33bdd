"""An nsys that runs nothing, or none at all, ends the run before anything is measured."""

import os
from pathlib import Path

from tests.extras.nsys.e2e.test_nsys_reports import stand_in
from tests.forked import perf as pytest_perf

TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"


def test_an_nsys_that_runs_nothing_is_reported_at_once(tmp_path: Path) -> None:
    stand_in(tmp_path, "echo this nsys has expired >&2; exit 1\n")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    outcome = pytest_perf(tmp_path, TEST, f"--nsys={tmp_path / 'reports'}", variables={"PATH": path})
    assert outcome.exit_code == 4
    assert f"--nsys: {tmp_path / 'nsys'} does not run programs: this nsys has expired" in outcome.errors
    assert not (tmp_path / "reports").exists()


def test_a_machine_without_nsys_says_so_at_once(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, TEST, f"--nsys={tmp_path / 'reports'}", variables={"PATH": str(tmp_path)})
    assert outcome.exit_code == 4
    assert "--nsys: there is no nsys on PATH: install Nsight Systems" in outcome.errors
    assert not (tmp_path / "reports").exists()
