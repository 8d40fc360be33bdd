"""The steps of the nightly and the promote workflow, their commands as they stand, in a copy of the checkout.

The ranks are fakes, and ``gh`` is a script that does nothing; git is real, and pushes into a folder.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.extras import EXTRAS
from tests.command_line import ENVIRONMENT, ROOT
from tests.workloads_for_tests import STEP_MS

Done = subprocess.CompletedProcess[str]

# The step history makes the page again.
NAMES = ("measure", "summary", "keep", *(["history"] if "page" in EXTRAS else []), "drift", "report")
FEW = "-p tests.fake_ranks -p no:cacheprovider --workload=tests.workloads_for_tests:steady --launches=1 --steps=3"


# Bytecode, by another process.
being_written = shutil.ignore_patterns("*.pyc.*")


class Runner:
    """A machine with a checkout and a folder for the records, which runs steps as GitHub's runner does."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.nights, self.summary = folder / "checkout", folder / "nights", folder / "summary.md"
        self.checkout.mkdir()
        for name in ("fixtures", "perf", "tests", ".github"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=being_written)
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)

        (folder / "bin").mkdir()
        gh = folder / "bin/gh"
        gh.write_text("#!/bin/sh\n")
        gh.chmod(0o755)
        self.path = os.pathsep.join([str(gh.parent), str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(self, command: str, *, step_ms: str = "20", **more: str) -> Done:
        few = f"{ENVIRONMENT['PYTEST_ADDOPTS']} {FEW} -k 'throughput and bucket_view and not static'"
        variables = {
            "PATH": self.path,
            "PYTHONPATH": os.pathsep.join([str(self.checkout), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_ADDOPTS": few,
            "NIGHTLIES": str(self.nights),
            "GITHUB_RUN_ID": step_ms,
            "GITHUB_STEP_SUMMARY": str(self.summary),
            STEP_MS: step_ms,
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.checkout,
            env=os.environ | ENVIRONMENT | variables | more,
            capture_output=True,
            text=True,
            timeout=120,
        )


def steps_of(workflow: str, job: str) -> dict[str, str]:
    """Name of each step that runs a command -> the command."""
    # Any: a workflow is YAML.
    whole: dict[str, Any] = yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())
    return {step["name"]: step["run"] for step in whole["jobs"][job]["steps"] if "run" in step}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, dict[str, Done]]:
    """A baseline, and a night that is slower: by name, what each step did."""
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    runner = Runner(tmp_path_factory.mktemp("runner"))
    recorded = runner.run("pytest perf --benchmark-save=first", step_ms="20")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    steps = steps_of("nightly", "perf")
    return runner, {name: runner.run(steps[name], step_ms="60") for name in NAMES}


def test_a_slower_night_is_red_and_every_step_after_it_works_and_leaves_its_files(
    night: tuple[Runner, dict[str, Done]],
) -> None:
    runner, done = night
    assert {name: one.returncode for name, one in done.items()} == {name: int(name == "measure") for name in NAMES}, [
        one.stdout + one.stderr for one in done.values()
    ]
    kept = json.loads((runner.nights / "60.json").read_text())
    slower = [one["fullname"] for one in kept["benchmarks"] if one["extra_info"]["verdict"]["word"] == "slower"]
    assert slower
    summary = runner.summary.read_text()
    assert summary.startswith("## ddp-perf: 1 slower (1 measured test)\n")
    assert "slower by " in summary
    report = (runner.checkout / "regression.md").read_text()
    assert report.startswith(f"Slower: {slower[0]}")
    assert "- failing since record 60 of " in report
    assert "slower by " in report
    assert (runner.checkout / "nightly.xml").exists()


@pytest.mark.skipif("page" not in EXTRAS, reason="the extra page was deleted")
def test_a_slower_night_has_a_page_with_the_kept_nights(night: tuple[Runner, dict[str, Done]]) -> None:
    assert "stored-nights" in (night[0].checkout / "report/report.html").read_text()


def test_a_slower_night_becomes_a_baseline_in_a_branch_only_if_that_is_asked(
    night: tuple[Runner, dict[str, Done]],
) -> None:
    runner, _ = night
    origin = runner.checkout.parent / "origin.git"
    person = "git -c user.name=a -c user.email=a@example.org"
    repository = f"git init -q --bare {origin}; git init -q -b main .; git remote add origin {origin}"
    made = runner.run(f"{repository}; git add baselines; {person} commit -qm first; git push -q origin main")
    assert made.returncode == 0, made.stderr
    (runner.checkout / "nightly").mkdir()
    shutil.copy(runner.checkout / "nightly.json", runner.checkout / "nightly")
    steps = steps_of("promote", "promote")
    asked = {"RUN_ID": "60", "GITHUB_REF_NAME": "main"}
    assert runner.run(steps["download"], **asked).returncode == 0
    assert runner.run(steps["download"], **asked | {"RUN_ID": "60; true"}).returncode == 1
    refused = runner.run(steps["promote"], ACCEPT_SLOWER="false", **asked)
    assert refused.returncode == 1, refused.stdout
    taken = runner.run(steps["promote"], ACCEPT_SLOWER="true", **asked)
    assert taken.returncode == 0, taken.stdout
    pushed = runner.run(steps["open a pull request"], **asked)
    assert pushed.returncode == 0, pushed.stderr
    changed = runner.run(f"git -C {origin} diff --name-status main baseline-60").stdout.split()
    assert changed[0] == "A"
    assert [Path(file).name for file in changed[1:]] == ["0002_nightly.json"]
    assert "slower" in (runner.checkout / "body.md").read_text()
