"""The wheel in a project of its own: a test of a few lines, and other tests that it leaves alone."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from tests.command_line import ALONE, ROOT, Outcome

QUICK = ("--launches=1", "--steps=3", "--warmup=4", "--explain=none")
# None of these is imported by the plugin alone.
HEAVY = ("torch", "msgspec", "scipy", "hypothesis", "pynvml", "multiprocessing", "ddp_perf.session.settings")
INI = """[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider --benchmark-max-time=0.01
filterwarnings = error
"""
COMMANDS = (("python", "-m", "ddp_perf"), ("ddp-perf",))
PLAIN = """
import signal, sys
def test_signals_are_pythons(): assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
def test_nothing_else_is_loaded(): assert "ddp_perf.session.measure" not in sys.modules
def test_a_benchmark(benchmark): benchmark(sum, [1, 2])
"""
# Its sums are not divided. The benchmark next to it keeps pytest-benchmark's table.
HOOK = """
import torch
from ddp_perf import Hook

def sums(state, bucket):
    return torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

hook = Hook(name="sums", build=lambda ddp: (None, sums), promise="mean", wire_dtype="gradient")
def test_hook(promise): promise("2cpu", hook=hook)
def test_world(promise): promise("2cpus", hook=hook)
def test_a_benchmark(benchmark): benchmark(sum, [1, 2])
"""
# The start of a rank takes 4 s of CPU time, and a test of the largest world starts eight.
ONE_RANK = "import pytest\npytestmark = pytest.mark.parametrize('world', ['1cpu'])\n"
# As tests/quiet_machine.py and tests/run_of_a_test.py: a busy machine must neither keep the record out of the baselines
# nor explain a slowdown, which is not measured again, and no other run is waited for. No canaries: after a user's code
# they need two more ranks, each 4 s of CPU time.
QUIET = """
from contextlib import nullcontext
from ddp_perf.machine import cpu
from ddp_perf.records import config_comparison
from ddp_perf.session import canaries, launches, run_record, run_verdict
from ddp_perf.stats import decision

cpu.BUSY_SHARE = config_comparison.NOISY_PERCENT = float("inf")
decision.OTHER_WORK_SHARE = float("inf")
decision.excusable = lambda *_: False
run_record.MIN_JUMP_PERCENT = run_record.MIN_HOST_JUMP_PERCENT = float("inf")
run_verdict.MAX_MEASUREMENTS = 1
launches.sole_use_of_the_machine = nullcontext
canaries.Canaries.before = lambda *_, **__: None
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A folder with tests, and a virtual environment in which the wheel is installed."""

    folder: Path
    programs: Path

    def pytest(self, *arguments: str, folder: Path | None = None) -> Outcome:
        return self.run("python", "-m", "pytest", *arguments, folder=folder)

    def run(self, program: str, *arguments: str, folder: Path | None = None) -> Outcome:
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=folder or self.folder,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Outcome(exit_code=done.returncode, output=done.stdout, errors=done.stderr)


def built(folder: Path, command: str) -> Path:
    """The wheel that pip makes of a copy of the clone. command: ``build_wheel`` or ``build_editable``."""
    copy = folder / "clone"
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in files.stdout.split():
        if name.startswith(("fixtures/", "perf/")) or "/" not in name:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    build = f"import sys; from setuptools import build_meta; build_meta.{command}(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=copy, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"), "build_wheel")


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An empty project. Its environment also has the packages of this one, so that none is downloaded."""
    folder = tmp_path_factory.mktemp("project")
    venv.create(folder / ".venv")
    python = folder / ".venv/bin/python"
    (packages,) = (folder / ".venv/lib").glob("python*/site-packages")
    (packages / "these.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    command = [*pip, "install", "--no-deps", "--no-index", "--no-compile", "--ignore-installed", str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "pytest.ini").write_text(INI)
    return Project(folder=folder, programs=python.parent)


def test_the_wheel_has_one_package_and_no_word_of_the_clones(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
        text = "".join(file.read(name).decode() for name in names)
    assert {name.partition("/")[0] for name in names} == {"ddp_perf"}
    assert {f"ddp_perf/extras/{extra}/{part}.py" for extra, parts in EXTRAS.items() for part in parts} <= set(names)
    assert re.findall(r"(?:import|from|-m) fixtures\b.*|[\"'`]fixtures[./:].*|pytest perf\b.*", text) == []


def test_a_clone_installs_no_plugin(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(tmp_path, "build_editable")) as file:
        assert [name for name in file.namelist() if not re.search(r"\.dist-info/|__editable__", name)] == []
        assert [name for name in file.namelist() if "entry_points" in name] == []


def test_options_for_the_suites_tests_say_how_to_run_them(project: Project) -> None:
    (project.folder / "train.py").touch()
    typed = ("--script", "train.py", "--collect-only", "-q")
    nothing = project.pytest(*typed)
    assert (nothing.exit_code, nothing.test_ids) == (pytest.ExitCode.USAGE_ERROR, [])
    assert "type ddp-perf run SCRIPT.py, or add --pyargs ddp_perf.perf" in nothing.errors
    assert project.pytest(*typed, "--pyargs", "ddp_perf.perf").test_ids != []


def test_the_plugin_imports_little(project: Project) -> None:
    imports = "import sys, pytest, ddp_perf.plugin, ddp_perf.session.options as options; options.all_options()"
    assert project.run("python", "-c", f"{imports}; print(set({HEAVY}) & sys.modules.keys())").output == "set()\n"


@pytest.fixture(scope="module")
def runs(project: Project) -> tuple[Outcome, Outcome]:
    """A run of the documented test, and a second one in which its step is slower, with a hook that is wrong."""
    (code,) = re.findall(
        r"```python\n(# test_speed.py.*?)```", (ROOT / "docs/how-to/own-repository.md").read_text(), re.DOTALL
    )

    def write(wait_s: float) -> None:
        """The documented test on one rank, with a step that other processes of this machine hardly change."""
        waiting = f"loss=lambda model, x: __import__('time').sleep({wait_s}) or "
        of_world = code.replace("(measure):", "(measure, world):").replace("measure(mlp)", "measure(mlp, world)")
        of_world = of_world.replace("loss=lambda model, x: ", waiting) + ONE_RANK
        (project.folder / "test_speed.py").write_text(of_world)

    write(0.05)
    (project.folder / "quiet.py").write_text(QUIET)
    (project.folder / "test_hook.py").write_text(HOOK)
    quick = (*QUICK, "-p", "quiet", "-W", "error", "test_speed.py")
    first = project.pytest(*quick, "--benchmark-save=first", "--report=page")
    write(0.25)
    return first, project.pytest(*quick, "test_hook.py", "--require-baseline", "--min-slowdown=50")


def test_a_test_of_a_few_lines_is_red_when_a_step_got_slower(project: Project, runs: tuple[Outcome, Outcome]) -> None:
    first, second = runs
    assert first.exit_code == 0, first.output
    assert "report: page/report." in first.output
    assert "to compare with yet" in (project.folder / "page/report.md").read_text()
    assert len(list(project.folder.glob("baselines/*/0001_first.json"))) == 1
    assert second.exit_code == pytest.ExitCode.TESTS_FAILED, second.output
    assert re.search(r"^slower by \d+\.\d % \(threshold ", second.output, re.MULTILINE), second.output


@pytest.mark.skipif("page" not in EXTRAS, reason="the extra page was deleted")
def test_the_wheel_carries_what_the_page_is_made_of(project: Project) -> None:
    done = project.run("ddp-perf", "report", str(ROOT / "baselines/4x-nvidia-h200-nv18/0004_vit.json"), "-o", "stored")
    assert done.output == "report: stored/report.html\n", done.errors
    assert "<h2>What should I change?</h2>" in (project.folder / "stored/report.html").read_text()


def test_a_hook_that_breaks_its_promise_is_red(project: Project, runs: tuple[Outcome, Outcome]) -> None:
    outcome = runs[1]
    assert "3 failed, 1 passed" in outcome.output, outcome.output
    assert "FAILED test_hook.py::test_world - Failed: no world named '2cpus'" in outcome.output
    assert "delivers 2.00 x the mean: not divided by the number of ranks?" in outcome.output
    assert f"replay: PYTHONPATH={project.folder} python -m ddp_perf.gradients.replay 2cpu " in outcome.output
    assert "benchmark: 1 tests" in outcome.output


def test_other_tests_run_as_before(project: Project) -> None:
    (project.folder / "test_plain.py").write_text(PLAIN)
    plain, without = (project.pytest("test_plain.py", *more) for more in ((), ("-p", "no:ddp_perf")))
    assert plain.exit_code == without.exit_code == 0, plain.output
    assert "ddp-perf on" not in plain.output
    assert "benchmark: 1 tests" in plain.output


def test_the_clone_uses_its_own_code_where_the_wheel_is_installed(project: Project) -> None:
    one = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-no_comm]"
    listed = project.pytest(one, "--collect-only", "-q", *ALONE, folder=ROOT)
    assert listed.test_ids == [one], listed.errors
    outside = project.pytest(
        str(ROOT / "perf"), f"--rootdir={project.folder}", "-c", "pytest.ini", "--collect-only"
    ).exits(pytest.ExitCode.USAGE_ERROR)
    assert "run with -p no:ddp_perf" in outside.errors


def test_the_questions_and_the_commands_are_there_without_a_clone(project: Project) -> None:
    selected = ("-k", "(throughput or gradients_of_a_large_bucket) and no_comm", "-p", "no:ddp_perf.session.references")
    suites = ("--pyargs", "ddp_perf.perf", "--collect-only", "-q", "--hypothesis-profile=nightly")
    gradients, throughput = sorted(project.pytest(*suites, *selected).test_ids)
    assert "gradients_of_a_large_bucket" in gradients
    assert throughput == "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-no_comm]"  # as in a clone
    by_module, by_script = (project.run(*command, "check", "--help") for command in COMMANDS)
    assert by_module.output == by_script.output
    assert by_module.output.startswith("usage: ddp-perf check ")


def test_the_verbs_find_what_is_in_the_folder(project: Project, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "statistics.py").write_text("raise ImportError\n")  # pytest is not to import it
    collect = ("--collect-only", "-q")
    ran = project.run("ddp-perf", "run", *collect, "train.py", "--width", "768", folder=tmp_path)
    tests = "--pyargs ddp_perf.perf"
    assert f" -P -m pytest {tests} --script 'train.py --width 768' --collect-only -q\n" in ran.output, ran.errors
    assert any("as_written" in test for test in ran.test_ids), ran.errors
    (project.folder / "my_hooks.py").write_text(HOOK)
    checked = project.run("ddp-perf", "check", *collect, "my_hooks:hook")
    assert f" -m pytest {tests} --hook my_hooks:hook -k my_hooks:hook --collect-only -q\n" in checked.output
    assert any("test_gradients[3cpu-sums-default]" in test for test in checked.test_ids), checked.errors
