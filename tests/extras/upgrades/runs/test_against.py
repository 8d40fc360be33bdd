"""--against with fake ranks: pairs of launches, words, builds that cannot be measured."""

import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from tests import forked
from tests.command_line import QUICK, ROOT, Outcome
from tests.command_line import pytest_perf as new_process
from tests.extras.upgrades.another_build import CANNOT, FACTOR, SPREAD
from tests.forked import perf as pytest_perf
from tests.own_repository import checkout, git, job
from tests.saved_records import Record, only_info

ONE_RANK = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", "-k", "1cpu-ddp]")


def perf(folder: Path, *arguments: str, **variables: str) -> Outcome:
    """Against an interpreter with the same torch."""
    wanted = (
        *QUICK,
        "-p",
        "tests.extras.upgrades.another_build",
        f"--against={sys.executable}",
        f"--benchmark-json={folder / 'run.json'}",
    )
    return pytest_perf(folder / "baselines", *wanted, *arguments, variables=variables)


def record(folder: Path) -> Record:
    return only_info(folder / "run.json")


@pytest.mark.parametrize(("spread", "word", "pairs"), [("1", "ok", 2), ("1.5", "unclear", 12)])
def test_the_same_on_both_sides_does_not_fail_and_gets_more_pairs_where_they_differ(
    tmp_path: Path, spread: str, word: str, pairs: int
) -> None:
    perf(tmp_path, *ONE_RANK, "--min-slowdown=30", "--launches=2", **{SPREAD: spread}).exits(0)
    assert (record(tmp_path)["verdict"]["word"], record(tmp_path)["against"]["pairs"]) == (word, pairs)


def test_bare_all_reduces_are_compared_as_steps_are(tmp_path: Path) -> None:
    """An all-reduce that takes a hundred times as long in this build."""
    arguments = ("perf/test_collectives.py", "-k", "all_reduce_64kb", "--launches=2")
    outcome = perf(tmp_path, *arguments, **{FACTOR: "0.01"}).exits(pytest.ExitCode.TESTS_FAILED)
    assert re.search(r"slower by [\d.]+ % than the other build", outcome.output)
    row = r"test_collectives\[2cpu-all_reduce_64kb\] +[\d.]+ +[\d.]+ +[\d.]+ slower "
    assert re.search(row, outcome.output.partition("here against ")[2]), outcome.output
    own, other = record(tmp_path)["launch_medians_s"], record(tmp_path)["against"]["launch_medians_s"]
    assert own == pytest.approx([100 * time for time in other])


def test_a_skipped_test_says_under_which_build_it_cannot_be_run(tmp_path: Path) -> None:
    reason = "PowerSGD of rank 1 compresses nothing"
    chosen = ("perf/test_throughput.py", "-k", "vit_tiny-2cpu-powersgd_rank1]", "-rs")
    outcome = perf(tmp_path, *chosen, **{CANNOT: reason})
    assert f"({sys.executable}): {reason}" in outcome.unwrapped, outcome.output
    assert "1 skipped" in outcome.output


def test_an_interpreter_without_torch_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    outcome = perf(tmp_path, *ONE_RANK, f"--against={tmp_path / 'bare/bin/python'}").exits(pytest.ExitCode.USAGE_ERROR)
    assert f"--against: {tmp_path / 'bare/bin/python'} cannot import torch: ModuleNotFoundError" in outcome.errors


# ``--against`` with a user's own code: a revision or a build that cannot be measured ends the run with the
# reason


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("repository"), committed=job(), now=job(0.06))


def against_revision(repository: Path, storage: Path, *arguments: str, **variables: str) -> Outcome:
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
    outcome = against_revision(repository, tmp_path, f"--against={other}").exits(pytest.ExitCode.USAGE_ERROR)
    assert f"--against: {other} cannot load my_job.training:workload: {reason}" in outcome.errors


def test_nothing_is_left_of_the_revisions_files_when_pytest_is_killed(repository: Path) -> None:
    waiting = (
        "import time; from fixtures.extras.upgrades.other_build import OwnCode\n"
        "from fixtures.extras.upgrades.other_build import find_revision, checked_out\n"
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
    outcome = against_revision(top, tmp_path, "--against=HEAD").exits(pytest.ExitCode.USAGE_ERROR)
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
    outcome = new_process(tmp_path, *chosen, variables={"PYTHONPATH": str(tmp_path)}).exits(pytest.ExitCode.USAGE_ERROR)
    assert f"my_job.training comes from {source}/my_job/training.py, not from the revision" in outcome.output
    assert "starting" not in outcome.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((f"--against={'x' * 5000}",), "--against: there is no interpreter at xxx"),
        (("--against=torch==2.0.1",), "--against: torch==2.0.1 is too old: ranks run in torch 2."),
        (
            (f"--against={sys.executable}", "--against-env=NCCL_ALGO=Ring"),
            "--against-env compares two environments of one build, so leave out --against",
        ),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in pytest_perf(tmp_path, "perf", *arguments).exits(pytest.ExitCode.USAGE_ERROR).errors


def test_an_unknown_revision_is_named(repository: Path, tmp_path: Path) -> None:
    outcome = against_revision(repository, tmp_path, "--against=v9").exits(pytest.ExitCode.USAGE_ERROR)
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
    outcome = against_revision(repository, tmp_path, "--against=HEAD", **{variable: value.format(repository)}).exits(
        pytest.ExitCode.USAGE_ERROR
    )
    says = f"and git finds no repository for my_job.training: {reason.format(repository)}"
    assert says in outcome.errors
