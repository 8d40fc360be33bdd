"""The workflows in docs/how-to/nightly-ci.md, step by step, with baselines that the wheel recorded elsewhere."""

import re
import shutil
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import ROOT
from tests.e2e.test_wheel import QUIET
from tests.own_repository import git
from tests.runs.test_nightly_steps import Done, Runner, act
from tests.script.conftest import SCRIPTS

(NIGHTLY,) = re.findall(
    r"```yaml\n# .github/workflows/nightly.yml\n(.*?)```", (ROOT / "docs/how-to/nightly-ci.md").read_text(), re.DOTALL
)
# Any: a workflow is YAML.
WORKFLOWS: dict[str, Any] = {
    tested: yaml.safe_load(re.sub(r"script: .*", tested, NIGHTLY))
    for tested in ("script: train.py --width 768", "tests: test_speed.py")
}
SHORT = (
    "-p quiet -p no:fixtures.session.references -p no:ddp_perf.session.references -p no:cacheprovider "
    "--launches=1 --steps=3 --warmup=2 --min-slowdown=50 "
    "-k 'single or test_speed'"
)
# No index, and the packages of this environment.
PIP = {"PIP_NO_DEPS": "1", "PIP_NO_COMPILE": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
# Of the wheel and of a clone, whichever runs.
ALL_QUIET = f"""
import sys
def pytest_configure():
    for name in {{"fixtures", "ddp_perf"}} & sys.modules.keys():
        exec({QUIET!r}.replace("ddp_perf", name), {{}})
"""
TEST = """
import time
import pytest
import torch
from ddp_perf import Workload

def loss(model, x):
    time.sleep(WAIT_S)
    return model(x).square().mean()

job = Workload(
    name="job",
    batch_size=2,
    model=lambda: torch.nn.Linear(64, 64),
    sample=lambda: (torch.randn(64),),
    loss=loss,
    optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
)

# As a parameter: a run starts as many ranks as its largest world has, here not the largest of the machine.
@pytest.mark.parametrize("world", ["1cpu"])
def test_training_speed(measure, world):
    measure(job, world)
"""


def write(repository: Path, wait_s: float) -> None:
    """A script and a test, whose steps take about this long."""
    loss = "            loss = nn.functional.cross_entropy("
    script = (SCRIPTS / "plain.py").read_text().replace(loss, f"            time.sleep({wait_s})\n{loss}")
    (repository / "train.py").write_text(script)
    (repository / "test_speed.py").write_text(TEST.replace("WAIT_S", str(wait_s)))


class Elsewhere(Runner):
    """A runner with the action in one folder and a checkout of the user's repository in another.

    python: of an environment with the packages of this one, without the suite.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("setup.py", "README.md", "LICENSE", "action.yml"):
            (self.checkout / name).write_bytes((ROOT / name).read_bytes())
        (folder / "quiet.py").write_text(ALL_QUIET)
        venv.create(folder / "venv")
        self.python = folder / "venv/bin/python"
        (packages,) = (folder / "venv/lib").glob("python*/site-packages")
        (packages / "these.pth").write_text(sysconfig.get_path("purelib"))
        program = self.python.with_name("pytest")
        program.write_text(f"#!{self.python}\nimport pytest, sys\nsys.exit(pytest.console_main())\n")
        program.chmod(0o755)
        self.path = f"{self.python.parent}:{self.path}"
        self.work = folder / "work/repo"
        self.work.mkdir(parents=True)

    def run(self, command: str, *, step_ms: str = "20", **more: str) -> Done:
        given = {"PYTHONPATH": str(self.checkout.parent), "PYTEST_ADDOPTS": SHORT, **PIP, **more}
        return super().run(command, step_ms=step_ms, **given)

    def night(self, workflow: str) -> list[Done]:
        """The steps of the action as a workflow of the documents uses it. One short launch decides no 10 %."""
        shutil.rmtree(self.temp)  # as between two jobs
        self.temp.mkdir()
        (uses,) = [step for step in WORKFLOWS[workflow]["jobs"]["perf"]["steps"] if "/ddp-perf@" in step["uses"]]
        inputs = uses["with"] | {"python": str(self.python), "sensitivity": ""}
        assert act(self, "inputs", inputs).returncode == 0
        return [act(self, name, inputs) for name in ("measure", "summary")]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    """With baselines that somebody recorded by the wheel in another checkout, the script's from inside a subfolder."""
    runner = Elsewhere(tmp_path_factory.mktemp("elsewhere"))
    first = runner.checkout.parent / "somebody/first"
    (first / "tools").mkdir(parents=True)
    write(first, 0.05)
    git(first, "init", "--quiet")
    assert act(runner, "install", {"tests": "test_speed.py", "python": str(runner.python)}).returncode == 0
    save = "--benchmark-save=first --explain=none --benchmark-storage"
    for command in (
        f"cd {first}/tools; ddp-perf run {save}=../baselines ../train.py --width 768",
        f"cd {first}; pytest {save}=baselines test_speed.py",
    ):
        done = runner.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(first, runner.work, dirs_exist_ok=True)
    return runner


# Another night of each would start ranks for what runs/test_nightly_steps.py shows of the action.
@pytest.mark.parametrize(("workflow", "wait_s", "red"), [*zip(WORKFLOWS, (0.05, 0.2), (False, True), strict=True)])
def test_a_night_finds_its_baseline_and_is_red_when_a_step_got_slower(
    workflow: str, wait_s: float, red: bool, elsewhere: Elsewhere
) -> None:
    write(elsewhere.work, wait_s)
    measure, summary = elsewhere.night(workflow)
    assert summary.returncode == 0, summary.stderr
    assert measure.returncode == red, measure.stdout
    assert "1 measured test" in measure.stdout
    assert "no stored run" not in measure.stdout
    assert ("slower by " in (elsewhere.work / "nightly.md").read_text()) == red
