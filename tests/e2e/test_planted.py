"""Planted slowdowns in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from studies.planted import MAX_CTAS, UNPLANTED
from tests.command_line import QUICK, pytest_perf


def test_the_other_build_has_no_plants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "studies.planted", str(other)], check=True)
    monkeypatch.setenv(MAX_CTAS, "4")
    said = f"import os; print(os.environ['{UNPLANTED}'], os.environ.get('{MAX_CTAS}'))"
    done = subprocess.run([other, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == "1 None\n"


def test_ddp_is_given_the_planted_bucket(tmp_path: Path) -> None:
    names = ("vit_tiny__100mb__1", "vit_tiny__0us__1")
    outcome = pytest_perf(
        tmp_path,
        *(f"perf/test_throughput.py::test_throughput[{name}-2cpu-ddp_default]" for name in names),
        *(f"--workload=studies.planted:{name}" for name in names),
        *(*QUICK, f"--benchmark-json={tmp_path / 'run.json'}"),
    )
    assert outcome.exit_code == 0, outcome.output
    planted, plain = json.loads((tmp_path / "run.json").read_text())["benchmarks"]
    assert planted["extra_info"]["bucket_bytes"] == [sum(plain["extra_info"]["bucket_bytes"])]
    assert len(plain["extra_info"]["bucket_bytes"]) > 1
