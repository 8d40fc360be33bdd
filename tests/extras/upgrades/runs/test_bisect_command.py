"""``python -m fixtures bisect``: refused arguments, results, output after Ctrl-C, and the clean-up.

Its runs of pytest have fake ranks; pairs of launches of two revisions on live ones are shown in tests/e2e.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import forked
from tests.command_line import ENVIRONMENT, ROOT, Outcome
from tests.own_repository import checkout, git, job

OWN = "--workload=my_job.training:workload"
FAST, SLOW, BROKEN = job(), job(0.06), "import no_such_dependency"
SEARCH = (OWN, "--pairs=2", "-k", "1cpu-ddp]")
BISECTED = ("-p", "tests.extras.upgrades.bisected_ranks")
FAKE = ("--", str(ROOT / "perf/test_scaling.py"), "--steps=3", "--warmup=4", *BISECTED)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """v0: steps of 20 ms; v1: of 60; v2: it does not load. The working tree is changed."""
    top = checkout(tmp_path_factory.mktemp("history"), committed=FAST, now="")
    git(top, "tag", "v0")
    for number, text in enumerate((SLOW, BROKEN), 1):
        (top / "src/my_job/training.py").write_text(text)
        git(top, "commit", "--quiet", "--all", f"--message=change {number}")
        git(top, "tag", f"v{number}")
    git(top, "checkout", "--quiet", "v1")
    (top / "hook_has_run").unlink()  # bisect runs no hook of the repository
    (top / "src/my_job/training.py").write_text("in the middle of an edit")
    return top


def left_by_bisect(repository: Path, temporary: Path) -> list[str]:
    """Files and worktrees that are not of before, and changes of the checkout."""
    worktrees = git(repository, "worktree", "list").splitlines()[1:]
    return [*map(str, temporary.glob("ddp-*")), *worktrees, git(repository, "status", "--short").strip()]


def bisect(repository: Path, *arguments: str, temporary: Path | None = None) -> Outcome:
    variables = {"PYTHONPATH": f"{ROOT}:{repository / 'src'}"}
    return forked.command("bisect", *arguments, variables=variables | _in(temporary))


def _in(temporary: Path | None) -> dict[str, str]:
    return {} if temporary is None else {"TMPDIR": str(temporary)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--good=v0", "--bad=v9", OWN), "error: --bad v9: no such revision in "),
        (("--good=v0", "--bad=v1", "--workload=no_such_job:workload"), "error: no_such_job has no file"),
        (
            ("--good=v0", "--bad=v1", "--workload=no_such_job.training:workload"),
            "error: No module named 'no_such_job': put the folder that has no_such_job on PYTHONPATH",
        ),
        (("--good=v0", "--bad=v1", OWN, "--pairs=1"), "--pairs must be 2 or more, got 1"),
        (("--good=v0", "--bad=v1", "--workload=../evil:x"), "error: ../evil is not found: ImportError: no package "),
        (("--good=v0", "--bad=v1", "--workload=vit_tiny"), "--workload must be yours, PKG.MODULE:ATTR, got vit_tiny"),
        (("--good=v0", "--bad=v1"), "bisecting commits needs a --workload or --hook of the repository"),
        (("--good=v0", "--bad=v2", OWN), "error: --bad "),
    ],
)
def test_what_cannot_be_bisected_is_reported(repository: Path, arguments: tuple[str, ...], says: str) -> None:
    outcome = bisect(repository, *arguments).exits(2)
    assert says in outcome.errors
    assert "Traceback" not in outcome.errors


def test_the_slow_commit_is_found_and_nothing_is_left(repository: Path, tmp_path: Path) -> None:
    outcome = bisect(repository, "--good=v0", "--bad=v1", "--json", *SEARCH, *FAKE, temporary=tmp_path).exits(0)
    result = json.loads(outcome.output)
    assert [commit["name"] for commit in result["found"]] == [git(repository, "rev-parse", "v1").strip()]
    assert result["comparisons"][0]["change_percent"] == pytest.approx(200)
    assert left_by_bisect(repository, tmp_path) == ["M src/my_job/training.py"]


def children(pid: int) -> list[str]:
    """The command lines of the processes that this one started."""
    found = []
    with suppress(OSError):  # one has exited
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found.append(Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace"))
    return found


def test_ctrl_c_ends_the_run_of_pytest_and_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "fixtures", "bisect", "--good=v0", "--bad=v1", *SEARCH, *FAKE],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, **_in(tmp_path), "PYTHONPATH": f"{ROOT}:{repository / 'src'}"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    deadline = time.monotonic() + 120
    while not any("\0pytest\0" in command for command in children(process.pid)):
        assert process.poll() is None, (tmp_path / "errors").read_text()
        assert time.monotonic() < deadline, (tmp_path / "errors").read_text()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "nothing is known: no comparison has ended\n")
    assert left_by_bisect(repository, tmp_path) == ["M src/my_job/training.py"]
