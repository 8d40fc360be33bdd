"""The steps of the nightly workflow, their commands as they stand, in a copy of the checkout. The ranks are fakes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import ENVIRONMENT, ROOT
from tests.workloads_for_tests import STEP_MS

NAMES = ("measure", "summary", "keep", "drift", "report")
FEW = "-p tests.fake_ranks -p no:cacheprovider --workload=tests.workloads_for_tests:steady --launches=1 --steps=3"


class Runner:
    """A machine with a checkout and a folder for the records, which runs steps as GitHub's runner does."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.nights, self.summary = folder / "checkout", folder / "nights", folder / "summary.md"
        self.checkout.mkdir()
        for name in ("fixtures", "perf", "tests", ".github"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)

    def run(self, command: str, *, step_ms: int) -> subprocess.CompletedProcess[str]:
        few = f"{ENVIRONMENT['PYTEST_ADDOPTS']} {FEW} -k 'throughput and bucket_view and not static'"
        variables = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(self.checkout), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_ADDOPTS": few,
            "NIGHTLIES": str(self.nights),
            "GITHUB_RUN_ID": str(step_ms),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            STEP_MS: str(step_ms),
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.checkout,
            env=os.environ | ENVIRONMENT | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, dict[str, subprocess.CompletedProcess[str]]]:
    """A baseline, and a night that is slower: by name, what each step did."""
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    runner = Runner(tmp_path_factory.mktemp("runner"))
    recorded = runner.run("pytest perf --benchmark-save=first", step_ms=20)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    # Any: a workflow is YAML.
    workflow: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text())
    steps = {step.get("name"): step.get("run") for step in workflow["jobs"]["perf"]["steps"]}
    return runner, {name: runner.run(steps[name], step_ms=60) for name in NAMES}


def test_a_slower_night_is_red_and_every_step_after_it_works(
    night: tuple[Runner, dict[str, subprocess.CompletedProcess[str]]],
) -> None:
    _, done = night
    assert {name: one.returncode for name, one in done.items()} == {name: int(name == "measure") for name in NAMES}, [
        one.stdout + one.stderr for one in done.values()
    ]


def test_a_slower_night_leaves_its_record_summary_and_report(
    night: tuple[Runner, dict[str, subprocess.CompletedProcess[str]]],
) -> None:
    runner, _ = night
    kept = json.loads((runner.nights / "60.json").read_text())
    slower = [one["fullname"] for one in kept["benchmarks"] if one["extra_info"]["verdict"]["word"] == "slower"]
    assert slower
    summary = runner.summary.read_text()
    assert summary.startswith("```\n")
    assert "slower by " in summary
    report = (runner.checkout / "regression.md").read_text()
    assert report.startswith(f"Slower: {slower[0]}")
    assert "slower by " in report
    assert (runner.checkout / "nightly.xml").exists()
