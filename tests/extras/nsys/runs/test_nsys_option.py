"""An nsys that runs nothing, or none at all, ends the run before anything is measured."""

import os
from pathlib import Path

import pytest

from tests.extras.nsys.e2e.test_nsys_reports import stand_in
from tests.forked import perf as pytest_perf

TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo this nsys has expired >&2; exit 1\n", "{nsys} does not run programs: this nsys has expired"),
        (None, "there is no nsys on PATH: install Nsight Systems"),
    ],
    ids=["runs nothing", "missing"],
)
def test_an_nsys_that_runs_nothing_or_is_missing_is_reported_at_once(
    tmp_path: Path, script: str | None, says: str
) -> None:
    if script is not None:
        stand_in(tmp_path, script)
    path = str(tmp_path) if script is None else f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    outcome = pytest_perf(tmp_path, TEST, f"--nsys={tmp_path / 'reports'}", variables={"PATH": path}).exits(4)
    assert f"--nsys: {says.format(nsys=tmp_path / 'nsys')}" in outcome.errors
    assert not (tmp_path / "reports").exists()
