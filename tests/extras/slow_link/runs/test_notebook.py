"""The notebook in docs/notebooks: its commands run on the CPU, without Jupyter (pyproject.toml has why)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ALONE, ENVIRONMENT, ROOT

NOTEBOOK = ROOT / "docs/notebooks/two-gpus.ipynb"
# Part of a command -> why it is not run.
NOT_RUN = {
    "%pip install": "an environment of 5 GB, which .ci/run makes",
    "fixtures doctor": "its exit code depends on the machine: tests/extras/doctor/runs/test_doctor.py",
}
# One config in place of ten where the command chooses none, and few steps.
BRIEF = {
    "PYTEST_ADDOPTS": f"{' '.join(ALONE)} -p no:cacheprovider -k ddp_default --steps=4",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}

LINES = [
    line
    for cell in json.loads(NOTEBOOK.read_text())["cells"]
    if cell["cell_type"] == "code"
    for line in "".join(cell["source"]).splitlines()
]


@pytest.mark.parametrize("line", [line for line in LINES if not any(part in line for part in NOT_RUN)])
def test_a_command_of_the_notebook_measures(line: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    command = line.removeprefix("!").replace("--report out", f"--report {tmp_path_factory.mktemp('out')}")
    outcome = subprocess.run(
        command,
        shell=True,
        cwd=NOTEBOOK.parent,
        env=os.environ | ENVIRONMENT | BRIEF,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "vit_tiny, 2cpu" in outcome.stdout
    assert "ddp_default " in outcome.stdout


def test_the_notebook_has_a_command_for_each_part_and_no_output() -> None:
    assert sum("pytest perf" in line for line in LINES) == 2
    assert '"outputs": []' in NOTEBOOK.read_text()
    assert '"output_type"' not in NOTEBOOK.read_text()
