"""``--against``: real launches under another interpreter, in turn with our own.

What is made of pairs of launches is shown by tests/runs/test_against.py.
"""

import os
import re
import stat
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures.launch import interpreter
from fixtures.launch.interpreter import BadInterpreter, OwnCode, probe
from fixtures.launch.revision import Revision, checked_out
from tests import forked
from tests.command_line import QUICK, ROOT, Outcome, pytest_perf
from tests.saved_records import Record, only_info, read
from tests.workloads_for_tests import STEP_MS

# A run with live ranks, or, where it is to end before there are any, forked.perf.
Perf = Callable[..., Outcome]

OTHER_STEP_MS, OUR_STEP_MS = "20", "60"
STEADY = ("--workload", "tests.workloads_for_tests:steady", "-k", "1cpu-ddp]")


@pytest.fixture(scope="module")
def other_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of another environment: the same torch, in which the steps of ``steady`` take 20 ms."""
    python = tmp_path_factory.mktemp("other") / "python"
    python.write_text(f'#!/bin/sh\nexec env {STEP_MS}={OTHER_STEP_MS} "{sys.executable}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def perf(folder: Path, *arguments: str, step_ms: str, run: Perf = pytest_perf) -> Outcome:
    variables = {STEP_MS: step_ms}
    return run(folder / "baselines", "perf/test_scaling.py", *STEADY, *QUICK, *arguments, variables=variables)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory, other_build: Path) -> tuple[Outcome, Path]:
    """Three times as slow here as there."""
    folder = tmp_path_factory.mktemp("slower")
    files = (f"--benchmark-json={folder / 'run.json'}", f"--junitxml={folder / 'junit.xml'}")
    wanted = ("--against", str(other_build), "--launches=2", "--max-pairs=6", f"--traces={folder / 'traces'}")
    return perf(folder, *files, *wanted, step_ms=OUR_STEP_MS), folder


def record(folder: Path) -> Record:
    return only_info(folder / "run.json")


def test_a_test_that_is_slower_than_under_the_other_build_fails(slower: tuple[Outcome, Path]) -> None:
    outcome, _ = slower
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(r"slower by [\d.]+ % than the other build \(95 % interval", outcome.output)


def test_why_it_is_slower_is_reported_from_the_breakdowns_of_both(slower: tuple[Outcome, Path]) -> None:
    ms = r"\+[3-9]\d(\.\d)? ms"
    assert re.search(rf"{ms} a step: idle {ms}, in forward {ms}", slower[0].output), slower[0].output


def test_traces_of_both_builds_are_kept(slower: tuple[Outcome, Path]) -> None:
    names = sorted(path.name for path in (slower[1] / "traces").iterdir())
    assert [name.removeprefix("test_scaling-steady-1cpu-ddp-") for name in names] == [
        "of-the-other-build-rank0.json.gz",
        "rank0.json.gz",
    ]


def test_the_record_has_both_sides(slower: tuple[Outcome, Path]) -> None:
    info = record(slower[1])
    assert info["against"]["pairs"] == len(info["against"]["launch_medians_s"]) == len(info["launch_medians_s"])
    assert min(info["launch_medians_s"]) > 0.055 > 0.02 < min(info["against"]["launch_medians_s"])
    assert len(info["against"]["step_s"]) == sum(info["against"]["launch_steps"])
    assert min(info["against"]["step_s"]) < info["against"]["launch_medians_s"][0] < max(info["against"]["step_s"])
    low, high = info["against"]["interval_percent"]
    assert low < info["verdict"]["change_percent"] < high
    assert info["verdict"]["word"] == "slower"


def test_the_summary_has_a_row_a_test(slower: tuple[Outcome, Path]) -> None:
    assert ": 1 slower " in slower[0].unwrapped
    row = r"test_scaling\[steady-1cpu-ddp\] +[\d.]+ +[\d.]+ +[\d.]+ slower +[\d.]+ to [\d.]+ +\d +slower"
    assert re.search(row, slower[0].output), slower[0].output


def test_modules_that_both_sides_import_from_one_file_are_named(slower: tuple[Outcome, Path]) -> None:
    file = ROOT / "tests/workloads_for_tests.py"
    assert f" the same file on both sides: tests.workloads_for_tests ({file}) " in slower[0].unwrapped
    environment = read(slower[1] / "run.json")["environment"]
    assert environment["modules"] == {"tests.workloads_for_tests": str(file)}


def test_junit_has_the_failure(slower: tuple[Outcome, Path]) -> None:
    root = ElementTree.parse(slower[1] / "junit.xml").getroot()
    (failure,) = root.iter("failure")
    assert "than the other build" in failure.attrib["message"]
    found = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    low, change, high = (
        float(found[name]) for name in ("interval_low_percent", "change_percent", "interval_high_percent")
    )
    assert low < change < high
    assert 0 < float(found["other_step_ms"]) < float(found["step_ms"])
    assert int(found["pairs"]) == record(slower[1])["against"]["pairs"]
    assert found["against"] == record(slower[1])["against"]["build"]
    assert "history_records" not in found


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def test_an_interpreter_without_torch_is_reported_before_anything_is_measured(
    tmp_path: Path, without_torch: Path
) -> None:
    outcome = perf(tmp_path, "--against", str(without_torch), step_ms="1", run=forked.perf)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"--against: {without_torch} cannot import torch: ModuleNotFoundError" in outcome.errors


def test_a_build_without_the_users_module_is_reported_before_anything_is_measured(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    outcome = perf_of_job(repository, tmp_path, "--against", str(other), run=forked.perf)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"--against: {other} cannot load my_job.training:workload: ModuleNotFoundError" in outcome.errors


def test_a_build_whose_module_lacks_the_workload_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    for side, job in (("ours", JOB), ("theirs", JOB.replace("workload =", "renamed ="))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "one_job.py").write_text(job.replace("SLEEP_S", "0.02"))
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec env PYTHONPATH={tmp_path / "theirs"} "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    chosen = ("perf/test_scaling.py", "--workload=one_job:workload", f"--against={other}")
    outcome = forked.perf(tmp_path, *chosen, variables={"PYTHONPATH": str(tmp_path / "ours")})
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"--against: {other} cannot load one_job:workload: module 'one_job' has no 'workload'" in outcome.errors


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("/no/such/python", "there is no interpreter at /no/such/python"),
        ("HEAD~1000000", "there is no interpreter at HEAD~1000000, and no such revision"),
        ("/bin/true", "/bin/true exited with code 0 while importing torch, tests.workloads_for_tests"),
    ],
)
def test_what_is_no_interpreter_is_named(tmp_path: Path, named: str, says: str) -> None:
    outcome = perf(tmp_path, "--against", named, step_ms="1", run=forked.perf)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert says in outcome.errors


@pytest.mark.parametrize("named", ["venv", "venv/bin"])
def test_a_folder_is_answered_with_the_interpreter_in_it(tmp_path: Path, named: str) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    folder = str(tmp_path / named)
    says = f"{folder} is a folder: name the interpreter in it, {tmp_path / 'venv' / 'bin' / 'python'}"
    with pytest.raises(BadInterpreter, match=f"^{re.escape(says)}$"):
        probe(folder)


def test_a_folder_without_an_interpreter_says_what_was_looked_for(tmp_path: Path) -> None:
    says = "is a folder without an interpreter: there is no bin/python, python, bin/python3 or python3 in it"
    with pytest.raises(BadInterpreter, match=f"^{re.escape(f'{tmp_path} {says}')}$"):
        probe(str(tmp_path))


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Replaces an interpreter."""

    def write(text: str) -> str:
        (tmp_path / "python").write_text(text)
        (tmp_path / "python").chmod(0o755)
        return str(tmp_path / "python")

    return write


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "#!/bin/sh\necho no libnccl.so.2 >&2; exit 127",
            "exited with code 127 while importing torch: no libnccl.so.2",
        ),
        ("#!/bin/sh\nkill -SEGV $$", "died of SIGSEGV while importing torch"),
        ("what is this", "does not run: Exec format error"),
    ],
)
def test_how_an_interpreter_ended_is_reported(script: Callable[[str], str], text: str, says: str) -> None:
    python = script(text)
    with pytest.raises(BadInterpreter, match=f"^{re.escape(f'{python} {says}')}$"):
        probe(python)


def test_an_interpreter_that_takes_too_long_is_reported(
    script: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "_PROBE_TIMEOUT_S", 2)
    python = script("#!/bin/sh\necho waiting for the disk >&2; exec sleep 1000")
    with pytest.raises(BadInterpreter, match=r"had not imported torch after 2 s: waiting for the disk$"):
        probe(python)


# torch is imported by the builders, which fake ranks do not call.
JOB = """
import time
from fixtures.matrix.workloads import Workload

def model():
    from torch import nn
    return nn.Linear(64, 64)

def sample():
    import torch
    return (torch.randn(64),)

def loss(model, inputs):
    time.sleep(SLEEP_S)
    return model(inputs).square().mean()

def optimizer(parameters):
    import torch
    return torch.optim.SGD(parameters, lr=0.001)

workload = Workload(name="job", batch_size=2, model=model, sample=sample, loss=loss, optimizer=optimizer)
"""


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def checkout(top: Path, *, committed: str, now: str) -> Path:
    """A user's checkout, with what ``my_job.training`` is in its last commit and in the working tree."""
    (top / "src/my_job").mkdir(parents=True)
    (top / "src/my_job/__init__.py").touch()
    (top / "src/my_job/training.py").write_text(committed)
    (top / ".gitignore").write_text("__pycache__/\n")
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message=first")
    hook = top / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {top}/hook_has_run\n")
    hook.chmod(0o755)
    (top / "src/my_job/training.py").write_text(now)
    return top


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In its last commit a step takes 20 ms, in the working tree 60."""
    committed, now = JOB.replace("SLEEP_S", "0.02"), JOB.replace("SLEEP_S", "0.06")
    return checkout(tmp_path_factory.mktemp("repository"), committed=committed, now=now)


def perf_of_job(repository: Path, storage: Path, *arguments: str, run: Perf = pytest_perf, **variables: str) -> Outcome:
    chosen = ("perf/test_scaling.py", "-k", "1cpu-ddp]", "--workload=my_job.training:workload", "--explain=none")
    quick = (*QUICK, "--launches=2", "--max-pairs=8", "--false-alarms=50")
    variables = {"PYTHONPATH": str(repository / "src"), **variables}
    return run(storage, *chosen, *quick, *arguments, variables=variables)


def test_a_revision_of_the_users_code_is_measured_next_to_the_working_tree(repository: Path, tmp_path: Path) -> None:
    outcome = perf_of_job(repository, tmp_path, "--against=HEAD")
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(rf"here against HEAD \([0-9a-f]{{10}}\) of {repository.name}: 1 slower", outcome.output)
    assert re.search(r"slower by [\d.]+ % than the other build", outcome.output)
    assert re.search(
        r"differences between the two builds: my_job [0-9a-f]{10} -> [0-9a-f]{10}-dirty\n", outcome.output
    ), outcome.output
    assert "the same file on both sides" not in outcome.output


def test_the_checkout_is_as_it_was(repository: Path) -> None:
    assert git(repository, "status", "--short") == " M src/my_job/training.py\n"
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_nothing_is_left_of_the_revisions_files_when_pytest_is_killed(repository: Path) -> None:
    waiting = (
        "import time; from fixtures.launch.interpreter import OwnCode\n"
        "from fixtures.launch.revision import find_revision, checked_out\n"
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
    now = JOB.replace("SLEEP_S", "0.02")
    top = checkout(tmp_path / "job", committed="import no_such_dependency", now=now)
    outcome = perf_of_job(top, tmp_path, "--against=HEAD", run=forked.perf)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR, outcome.output
    says = "ModuleNotFoundError: No module named 'no_such_dependency'"
    assert outcome.output.count(f" of job cannot load my_job.training:workload: {says}") == 1
    assert "starting" not in outcome.output
    assert len(git(top, "worktree", "list").splitlines()) == 1


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
    (repository / "src/my_job/later.py").write_text(JOB.replace("SLEEP_S", "0.02"))
    chosen = ("perf/test_scaling.py", "-k", "2cpu", "--workload=my_job.later:workload", "--against=HEAD")
    outcome = forked.perf(tmp_path, *chosen, variables={"PYTHONPATH": str(repository / "src")})
    (repository / "src/my_job/later.py").unlink()
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "--against: my_job.later is not in HEAD (" in outcome.errors


def test_an_unknown_revision_is_named(repository: Path, tmp_path: Path) -> None:
    outcome = perf_of_job(repository, tmp_path, "--against=v9", run=forked.perf)
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
    outcome = perf_of_job(
        repository, tmp_path, "--against=HEAD", run=forked.perf, **{variable: value.format(repository)}
    )
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    says = f"and git finds no repository for my_job.training: {reason.format(repository)}"
    assert says in outcome.errors


def test_why_git_does_not_write_the_files_is_reported(tmp_path: Path) -> None:
    top = checkout(tmp_path / "job", committed="", now="")
    revision = Revision(named="HEAD", commit="0123456789", repository=top, own=OwnCode())
    with (
        pytest.raises(
            BadInterpreter, match=r"git cannot write the files of HEAD \(0123456789\) of job: fatal: Not a valid .+"
        ),
        checked_out(revision),
    ):
        pass
