"""The option --link, and the notebook that shows it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm_ranks
from tests.command_line import ENVIRONMENT, QUICK, ROOT
from tests.forked import perf as pytest_perf
from tests.machines import require_namespaces

SINGLE = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", *QUICK, "-k", "single")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--link fast", "--link 'fast': a rate is a number with kbit, mbit or gbit, such as 1gbit or 2.5gbit"),
        ("--link 1gbit,5", "--link '5': a delay is a number with us, ms or s, such as 50us"),
    ],
)
def test_wrong_input_is_reported_in_one_line(tmp_path: Path, arguments: str, complaint: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", *arguments.split()).exits(pytest.ExitCode.USAGE_ERROR)
    assert outcome.errors.strip() == f"ERROR: {complaint}"


def test_a_link_that_this_machine_cannot_fill_ends_the_run(tmp_path: Path) -> None:
    require_namespaces()
    outcome = pytest_perf(tmp_path, "perf", "--link", "900gbit").exits(pytest.ExitCode.USAGE_ERROR)
    (line,) = outcome.errors.strip().splitlines()
    assert re.match(r"ERROR: --link 900gbit: .*carries \d", line), line


def test_a_record_behind_a_link_is_of_another_instance(tmp_path: Path) -> None:
    require_namespaces()
    pytest_perf(tmp_path, *SINGLE, "--benchmark-save=first").exits(0)
    (instance,) = (folder.name for folder in tmp_path.iterdir())
    linked = pytest_perf(tmp_path, *SINGLE, "--link", "0.1gbit", "--benchmark-save=linked").exits(0)
    assert "each rank behind a link of 100mbit; measured " in linked.output
    assert "\ntakes about " not in linked.output  # what the record without the link says
    assert f"verdict: no stored run of {instance}-link_100mbit to compare with yet (1 measured test)\n" in linked.output
    record = json.loads((tmp_path / f"{instance}-link_100mbit" / "0001_linked.json").read_text())
    assert record["instance"] == f"{instance}-link_100mbit"
    assert 0.85e8 < record["link"]["data_bits_per_s"] < 1.05e8
    assert "link" not in json.loads((tmp_path / instance / "0001_first.json").read_text())


# The notebook in docs/notebooks: its commands run on the CPU, without Jupyter (pyproject.toml has why)


NOTEBOOK = ROOT / "docs/notebooks/two-gpus.ipynb"
# Part of a command -> why it is not run.
NOT_RUN = {
    "%pip install": "an environment of 5 GB, which .ci/run makes",
    "fixtures doctor": "its exit code depends on the machine: tests/extras/doctor/runs/test_doctor.py",
}
# One config in place of ten where the command chooses none, few steps, and short turns.
BRIEF = f"{ENVIRONMENT['PYTEST_ADDOPTS']} -p no:cacheprovider -k ddp_default --steps=4 --warmup=2 --minutes=0.1"

LINES = [
    line
    for cell in json.loads(NOTEBOOK.read_text())["cells"]
    if cell["cell_type"] == "code"
    for line in "".join(cell["source"]).splitlines()
]


@pytest.mark.parametrize("line", [line for line in LINES if not any(part in line for part in NOT_RUN)])
def test_a_command_of_the_notebook_measures(line: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path, options = f"{Path(sys.executable).parent}:{os.environ['PATH']}", " ".join([BRIEF, *warm_ranks.options()])
    outcome = subprocess.run(
        line.removeprefix("!").replace("--report out", f"--report {tmp_path_factory.mktemp('out')}"),
        shell=True,
        cwd=NOTEBOOK.parent,
        env=os.environ | ENVIRONMENT | {"PYTEST_ADDOPTS": options, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "vit_tiny, 2cpu" in outcome.stdout
    assert "ddp_default " in outcome.stdout
