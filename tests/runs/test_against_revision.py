"""``--against`` with a user's own code: a revision or a build that cannot be measured ends the run with the reason."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forked
from tests.command_line import ROOT, Outcome, pytest_perf
from tests.own_repository import checkout, git, job


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("repository"), committed=job(), now=job(0.06))


def perf(repository: Path, storage: Path, *arguments: str, **variables: str) -> Outcome:
    chosen = ("perf/test_scaling.py", "--workload=my_job.training:workload", *arguments)
    return forked.perf(storage, *chosen, variables={"PYTHONPATH": str(repository / "src"), **variables})


@pytest.mark.parametrize(
    ("path", "reason"),
    [("-u PYTHONPATH", "ModuleNotFoundError"), ("PYTHONPATH={}", "module 'my_job.training' has no 'workload'")],
)
def test_a_build_that_cannot_load_the_workload_is_reported_before_anything_is_measured(
    repository: Path, tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "my_job").mkdir()
    (tmp_path / "my_job/training.py").write_text(job().replace("workload =", "renamed ="))
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec env {path.format(tmp_path)} "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    outcome = perf(repository, tmp_path, f"--against={other}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"--against: {other} cannot load my_job.training:workload: {reason}" in outcome.errors


def test_nothing_is_left_of_the_revisions_files_when_pytest_is_killed(repository: Path) -> None:
    waiting = (
        "import time; from fixtures.launch.interpreter import OwnCode\n"
        "from fixtures.launch.other_side import find_revision, checked_out\n"
        "revision = find_revision('HEAD', OwnCode(workloads=('my_job.training:workload',)))\n"
        "with checked_out(revision) as there: print(there.files['my_job.training'], flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", waiting],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        file = Path(run.stdout.readline().strip())
        assert file.is_file()
        (tree,) = (parent for parent in file.parents if parent.name == repository.name)
        assert len(git(repository, "worktree", "list").splitlines()) == 1
        run.kill()
    deadline = time.monotonic() + 10
    while tree.parent.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not tree.parent.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_revision_that_does_not_load_ends_the_run_before_anything_is_measured(tmp_path: Path) -> None:
    top = checkout(tmp_path / "job", committed="import no_such_dependency", now=job())
    outcome = perf(top, tmp_path, "--against=HEAD")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR, outcome.output
    says = "ModuleNotFoundError: No module named 'no_such_dependency'"
    assert outcome.output.count(f" of job cannot load my_job.training:workload: {says}") == 1
    assert "starting" not in outcome.output
    assert len(git(top, "worktree", "list").splitlines()) == 1


@pytest.mark.usefixtures("spawned_ranks")
def test_a_revision_that_an_installed_module_would_shadow_ends_the_run(repository: Path, tmp_path: Path) -> None:
    """As an editable install may: it is imported from the checkout when Python starts."""
    source = repository / "src"
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.path.append({str(source)!r}); import my_job.training")
    chosen = ("perf/test_scaling.py", "--workload=my_job.training:workload", "--against=HEAD")
    outcome = pytest_perf(tmp_path, *chosen, variables={"PYTHONPATH": str(tmp_path)})
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR, outcome.output
    assert f"my_job.training comes from {source}/my_job/training.py, not from the revision" in outcome.output
    assert "starting" not in outcome.output


def test_a_revision_without_the_users_module_is_named(repository: Path, tmp_path: Path) -> None:
    (repository / "src/my_job/later.py").write_text(job().replace('"job"', '"later"'))
    outcome = perf(repository, tmp_path, "--workload=my_job.later:workload", "--against=HEAD")
    (repository / "src/my_job/later.py").unlink()
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "--against: my_job.later is not in HEAD (" in outcome.errors


def test_an_unknown_revision_is_named(repository: Path, tmp_path: Path) -> None:
    outcome = perf(repository, tmp_path, "--against=v9")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"there is no interpreter at v9, and no such revision in {repository}" in outcome.errors


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1", "fatal: detected dubious ownership in repository at '{}' To add an"),
        ("GIT_CEILING_DIRECTORIES", "{}/src", "fatal: not a git repository"),
        ("PATH", "{}", "git does not run: No such file or directory"),
    ],
)
def test_why_git_opens_no_repository_is_reported(
    repository: Path, tmp_path: Path, variable: str, value: str, reason: str
) -> None:
    outcome = perf(repository, tmp_path, "--against=HEAD", **{variable: value.format(repository)})
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    says = f"and git finds no repository for my_job.training: {reason.format(repository)}"
    assert says in outcome.errors
