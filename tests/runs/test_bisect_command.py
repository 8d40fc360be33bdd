"""``python -m fixtures bisect``: what it refuses, and a real search through one commit on live ranks."""

import json
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.command_line import ROOT, Outcome
from tests.command_line import run as on_live_ranks
from tests.e2e.test_against import JOB, checkout, git

OWN = "--workload=my_job.training:workload"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """v0: steps of 20 ms; v1: of 60; v2: it does not load."""
    top = checkout(tmp_path_factory.mktemp("history"), committed=JOB.replace("SLEEP_S", "0.02"), now="")
    git(top, "tag", "v0")
    for number, text in enumerate((JOB.replace("SLEEP_S", "0.06"), "import no_such_dependency"), 1):
        (top / "src/my_job/training.py").write_text(text)
        git(top, "commit", "--quiet", "--all", f"--message=change {number}")
        git(top, "tag", f"v{number}")
    git(top, "checkout", "--quiet", "v1")
    (top / "hook_has_run").unlink()  # bisect runs no hook of the repository
    return top


def bisect(repository: Path, *arguments: str) -> Outcome:
    return forked.command("bisect", *arguments, variables={"PYTHONPATH": f"{ROOT}:{repository / 'src'}"})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--good=v0", "--bad=v9", OWN), "error: --bad v9: no such revision in "),
        (("--good=v1", "--bad=v0", OWN), "error: --good v1 is not an ancestor of --bad v0"),
        (("--good=v0", "--bad=v1", "--workload=no_such_job:workload"), "error: no_such_job has no file"),
        (("--good=v0", "--bad=v1", OWN, "--pairs=0"), "--pairs must be 1 or more, got 0"),
        (("--good=v0", "--bad=v1", OWN, "--min-slowdown=0"), "--min-slowdown must be between 0 and 1000, got 0"),
        (("--good=v0", "--bad=v1"), "bisecting commits needs a --workload or --hook of the repository"),
        (("--good=v0", "--bad=v2", OWN), "error: --bad "),
    ],
)
def test_what_cannot_be_bisected_is_reported(repository: Path, arguments: tuple[str, ...], says: str) -> None:
    outcome = bisect(repository, *arguments)
    assert outcome.exit_code == 2, outcome.output
    assert says in outcome.errors
    assert "Traceback" not in outcome.errors


def test_a_folder_without_git_is_reported(tmp_path: Path) -> None:
    (tmp_path / "src/my_job").mkdir(parents=True)
    (tmp_path / "src/my_job/__init__.py").touch()
    (tmp_path / "src/my_job/training.py").write_text(JOB)
    outcome = bisect(tmp_path, "--good=v0", "--bad=v1", OWN)
    assert outcome.exit_code == 2
    assert "error: git finds no repository for my_job.training: fatal: not a git repository" in outcome.errors


def test_the_slow_commit_is_found_and_nothing_is_left(repository: Path, tmp_path: Path) -> None:
    outcome = on_live_ranks(
        *(
            sys.executable,
            "-m",
            "fixtures",
            "bisect",
            "--good=v0",
            "--bad=v1",
            OWN,
            "--pairs=2",
            "--json",
            "-k",
            "1cpu-ddp]",
        ),
        *("--", str(ROOT / "perf/test_scaling.py"), "--steps=3", "--warmup=4"),
        variables={"PYTHONPATH": f"{ROOT}:{repository / 'src'}", "TMPDIR": str(tmp_path), "PYTEST_ADDOPTS": ""},
    )
    assert outcome.exit_code == 0, outcome.errors
    result = json.loads(outcome.output)
    assert [commit["name"] for commit in result["found"]] == [git(repository, "rev-parse", "v1").strip()]
    low, high = result["comparisons"][0]["interval_percent"]
    assert low < result["comparisons"][0]["change_percent"] < high
    assert result["comparisons"][0]["change_percent"] > 100
    assert list(tmp_path.glob("ddp-*")) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--short") == ""
