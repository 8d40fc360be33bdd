"""The steps of the action, the nightly and the promote workflow, as they stand, in a copy of the checkout.

The ranks are fakes, ``gh`` and the Python that installs are scripts that do nothing; git is real, and pushes into a
folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.extras import EXTRAS
from tests.command_line import ALONE, ENVIRONMENT, ROOT
from tests.workloads_for_tests import STEP_MS

Done = subprocess.CompletedProcess[str]

# The steps after the action; the step history makes the page again.
NAMES = ("keep", *(["history"] if "page" in EXTRAS else []), "report")
FEW = "-p tests.fake_ranks -p no:cacheprovider --workload=tests.workloads_for_tests:steady --launches=1 --steps=3"


# Bytecode, by another process.
being_written = shutil.ignore_patterns("*.pyc.*")


class Runner:
    """A machine with a checkout and a folder for the records, which runs steps as GitHub's runner does."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.nights, self.summary = folder / "checkout", folder / "nights", folder / "summary.md"
        self.checkout.mkdir()
        self.work = self.checkout
        for name in ("fixtures", "perf", "tests", ".github"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=being_written)
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)

        self.temp = folder / "temp"
        self.temp.mkdir()
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
            "GITHUB_ACTION_PATH": f"{self.checkout}/./",
            "GITHUB_PATH": str(self.summary.with_name("path")),
            "RUNNER_TEMP": str(self.temp),
            STEP_MS: step_ms,
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.work,
            env=os.environ | ENVIRONMENT | variables | more,
            capture_output=True,
            text=True,
            timeout=300,
        )


def steps_of(workflow: str, job: str) -> dict[str, str]:
    """Name of each step that runs a command -> the command."""
    # Any: a workflow is YAML.
    whole: dict[str, Any] = yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())
    return {step["name"]: step["run"] for step in whole["jobs"][job]["steps"] if "run" in step}


# Any: an action is YAML.
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
EVERY_NIGHT = {"baseline": "baselines", "sensitivity": "10", "name": "nightly", "formats": "oss openmetrics"}


def act(runner: Runner, step: str, inputs: dict[str, str], **more: str) -> Done:
    """Run a step of the action with these inputs."""
    (found,) = [one for one in ACTION["runs"]["steps"] if one["name"] == step]
    values = {name: one["default"] for name, one in ACTION["inputs"].items()} | inputs
    put = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda expression: values[expression[1]], text)
        for name, text in found.get("env", {}).items()
    }
    return runner.run(found["run"], **put | more)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("runner"))


@pytest.fixture(scope="module")
def night(runner: Runner) -> tuple[Runner, dict[str, Done]]:
    """A baseline, and a night that is slower: by name, what each step did."""
    recorded = runner.run("pytest perf --benchmark-save=first", step_ms="20")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    steps = steps_of("nightly", "perf")
    acted = {name: act(runner, name, EVERY_NIGHT, step_ms="60") for name in ("measure", "summary", "formats")}
    return runner, acted | {name: runner.run(steps[name], step_ms="60") for name in NAMES}


def test_a_slower_night_is_red_and_every_step_after_it_works_and_leaves_its_files(
    night: tuple[Runner, dict[str, Done]],
) -> None:
    runner, done = night
    assert [name for name, one in done.items() if one.returncode] == ["measure"], [
        one.stdout + one.stderr for one in done.values()
    ]
    assert done["measure"].returncode == 1
    kept = json.loads((runner.nights / "60.json").read_text())
    slower = [one["fullname"] for one in kept["benchmarks"] if one["extra_info"]["verdict"]["word"] == "slower"]
    assert slower
    summary = runner.summary.read_text()
    assert "\nverdict: 1 slower (1 measured test)" in summary
    assert "slower by " in summary
    report = (runner.checkout / "regression.md").read_text()
    assert report.startswith("Slower: 1 test\n")
    assert f"\n{slower[0]}\n    slower by " in report
    assert "    failing since record 60 of " in report
    assert (runner.checkout / "nightly.xml").exists()
    assert 'verdict="slower"} 1' in (runner.checkout / "nightly-openmetrics.txt").read_text()
    assert json.loads((runner.checkout / "nightly-oss.txt").read_text())


@pytest.mark.skipif("page" not in EXTRAS, reason="the extra page was deleted")
def test_a_slower_night_has_a_page_with_the_kept_nights(night: tuple[Runner, dict[str, Done]]) -> None:
    assert "stored-nights" in (night[0].checkout / "nightly-report/report.html").read_text()


@pytest.mark.skipif("promote" not in EXTRAS, reason="the extra promote was deleted")
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
    refused = runner.run(steps["promote"], ACCEPT="", **asked)
    assert refused.returncode == 1, refused.stdout
    taken = runner.run(steps["promote"], ACCEPT="a larger model", **asked)
    assert taken.returncode == 0, taken.stdout
    pushed = runner.run(steps["open a pull request"], **asked)
    assert pushed.returncode == 0, pushed.stderr
    changed = runner.run(f"git -C {origin} diff --name-status main baseline-60").stdout.split()
    assert changed[0] == "A"
    assert [Path(file).name for file in changed[1:]] == ["0002_nightly.json"]
    assert "slower" in (runner.checkout / "body.md").read_text()


# Python as far as the step install needs it.
INSTALLS = """#!/bin/sh
echo "$@" >> {calls}
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""


def test_the_action_installs_into_an_environment_of_its_own_or_into_yours(runner: Runner) -> None:
    folder, calls = runner.checkout.parent / "yours/bin", runner.checkout.parent / "calls"
    folder.mkdir(parents=True)
    for python in (folder / "python", runner.checkout.parent / "bin/python3"):
        python.write_text(INSTALLS.format(calls=calls))
        python.chmod(0o755)
    own, yours = act(runner, "install", {}), act(runner, "install", {"python": "../yours/bin/python"})
    (runner.checkout.parent / "bin/python3").unlink()
    assert (own.returncode, yours.returncode) == (0, 0), own.stderr + yours.stderr
    installs = f"-m pip install -e {runner.checkout}/./[report]"
    assert calls.read_text().splitlines() == ["-m venv .venv", installs, installs]
    put_on_path = runner.summary.with_name("path").read_text().splitlines()
    assert put_on_path == [str(runner.checkout / ".venv/bin"), str(folder)]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"name": "twice"}, "name twice: each use in a job needs a name of its own"),
        ({"name": "a", "baseline": "baselines\n"}, "baseline, sensitivity, against, name and python are one line each"),
        ({"name": "b", "tests": "test_speed.py", "script": "train.py"}, "tests with script or workload"),
        ({"name": "c", "against": "main", "sensitivity": "10"}, "against with baseline or sensitivity"),
    ],
)
def test_an_input_of_the_action_that_could_not_count_is_refused(
    inputs: dict[str, str], says: str, runner: Runner
) -> None:
    (runner.temp / "ddp-perf-twice").mkdir(exist_ok=True)
    done = act(runner, "inputs", inputs)
    assert done.returncode == 1
    assert done.stdout.startswith(f"::error::ddp-perf: {says}")


@pytest.mark.parametrize(
    ("inputs", "says", "test"),
    [
        (
            {"script": "train.py --width 768\neval.py\n", "arguments": "-k 'as_written or bf16'\n--launches=2\n"},
            ["script: train.py --width 768, as ", "script: eval.py, as ", "2 launches of"],
            "2cpu-bf16]",
        ),
        ({"workload": "my_job:steady", "against": sys.executable, "arguments": "-k bf16"}, [], "2cpu-bf16]"),
    ],
    ids=["two scripts and arguments in lines", "a workload against another build"],
)
def test_the_action_measures_your_scripts_or_your_workload(
    inputs: dict[str, str], says: list[str], test: str, runner: Runner
) -> None:
    for name in ("train.py", "eval.py"):
        (runner.checkout / name).touch()
    shutil.copy(ROOT / "tests/workloads_for_tests.py", runner.checkout / "my_job.py")
    done = act(runner, "measure", inputs, PYTEST_ADDOPTS=" ".join(["--collect-only", *ALONE]), PYTHONPATH="")
    assert done.returncode == 0, done.stdout
    assert [words for words in (*says, test) if words not in done.stdout] == []
    assert "2cpu-no_comm]" not in done.stdout


def test_the_summary_of_an_action_that_could_not_measure_says_why(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert act(runner, "measure", {"script": "no.py"}, PYTEST_ADDOPTS="").returncode == pytest.ExitCode.USAGE_ERROR
    assert act(runner, "summary", {}).returncode == 0
    assert "there is no file no.py" in runner.summary.read_text()
    (runner.checkout / "ddp-perf.txt").unlink()
    assert act(runner, "summary", {}).returncode == 0
    assert "ddp-perf did not start" in runner.summary.read_text()
