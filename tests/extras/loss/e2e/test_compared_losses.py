"""``pytest perf --train`` on live ranks, of scripts and of a workload."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ROOT, Outcome
from tests.forked import live_perf

SCRIPT = ROOT / "tests/extras/loss/learnable.py"


def trained(folder: Path, *given: str) -> tuple[Outcome, dict[str, dict[str, Any]]]:
    """The outcome, and config -> its comparison in the record."""
    file = folder / "run.json"
    options = ("--train=60", "--minutes=9", f"--benchmark-json={file}", f"--report={folder / 'report'}")
    outcome = live_perf(folder, "perf/test_loss.py", *options, *given)
    losses = json.loads(file.read_text()).get("losses", []) if file.exists() else []
    return outcome, {one["config"]: one for one in losses}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("losses")


@pytest.fixture(scope="module")
def of_two_hooks(folder: Path) -> tuple[Outcome, dict[str, dict[str, Any]]]:
    return trained(
        folder,
        f"--script={SCRIPT}",
        "--hook=tests.extras.loss.learnable:half_dropped",
        "-k",
        "test_loss and (-bf16] or half_dropped)",
    )


def test_a_sound_hook_is_told_from_a_harmful_one_which_fails(of_two_hooks: tuple[Outcome, Any]) -> None:
    outcome, losses = of_two_hooks
    assert {name: one["word"] for name, one in losses.items()} == {"bf16": "same", "half_dropped": "higher"}
    assert outcome.exit_code == 1, outcome.output
    assert losses["bf16"]["repeats_percent"] == 0
    assert "1 failed, 1 passed" in outcome.output


def test_the_harmful_one_is_said_first_and_the_report_has_the_curves(
    of_two_hooks: tuple[Outcome, Any], folder: Path
) -> None:
    outcome, _ = of_two_hooks
    said = outcome.output.partition("loss after 60 steps")[2]
    assert 0 < said.index("half_dropped (") < said.index("bf16 (")
    report = (folder / "report/report.md").read_text()
    assert "\nloss: half_dropped" in report
    assert re.search(r"^ *step +as written", report, re.MULTILINE)


def test_a_loss_that_cannot_be_seen_is_refused_with_the_reason(tmp_path: Path) -> None:
    outcome, losses = trained(tmp_path, f"--script={SCRIPT} --by-hand", "-k", "2cpu-bf16]")
    assert losses == {}
    assert "cannot be seen: backward() is called on float32[32, 10]" in " ".join(outcome.output.split())
    assert outcome.exit_code == 1


def test_a_workload_trains_on_new_samples_and_one_that_cannot_be_learnt_is_not_compared(tmp_path: Path) -> None:
    workloads = [f"--workload=tests.extras.loss.learnable:{name}" for name in ("workload", "unlearnable")]
    outcome, losses = trained(tmp_path, *workloads, "-k", "2cpu-bf16]")
    assert [(one["workload"], one["word"]) for one in losses.values()] == [("learnable", "same")]
    assert "loss not compared: in 60 steps training as written does not lower" in " ".join(outcome.output.split())
