"""The command line: the list of tests, messages for wrong input, and the output of a run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.matrix import workloads
from tests.command_line import MY_PROJECT, QUICK, ROOT, Outcome, command_here, run
from tests.forked import perf as pytest_perf
from tests.recordings import ddp_steps

WORKLOADS = "tests.workloads_for_tests"
OF_FILES = ("--report", "--traces", "--benchmark-json", "--benchmark-save", "--benchmark-storage", "--script")
BUILT_IN = ", ".join(workloads.WORKLOADS)

# Workloads of a user: two with names of the suite, and a built-in one under its own name.
TAKEN = """
from dataclasses import replace
from fixtures.matrix.workloads import WORKLOADS

vit_tiny = replace(WORKLOADS["vit_tiny"], batch_size=8)
all_reduce = replace(vit_tiny, name="all_reduce")
built_in = WORKLOADS["vit_tiny"]
"""
WARNING = """
import warnings

warnings.warn("the old name", DeprecationWarning)
warnings.warn("the old way")
"""


@pytest.fixture(scope="module")
def my_project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user's package with a workload, and modules that cannot be imported; the variables that make it importable."""
    folder = tmp_path_factory.mktemp("site")
    joins = "from torch import distributed\ndistributed.init_process_group({})\n"
    alone = f"'gloo', init_method='file://{folder}/store', rank=0, world_size=1"
    modules = {
        "__init__": "",
        "training": MY_PROJECT,
        "taken": TAKEN,
        "broken": "rates = {}\nrates['learning_rate']\n",
        "unfinished": "workload = Workload(\n",
        "calls": "import json\n\nhook = json.loads('no JSON')\n",
        "script": "raise SystemExit(0)\n",
        "leaves": "import os\nos._exit(0)\n",
        "joins": joins.format("'gloo'"),
        "joined": joins.format(alone) + MY_PROJECT,
        "silent": "class E(Exception):\n    __str__ = None\nraise E\n",
        "unnamed": MY_PROJECT.replace('name="mine"', "name=5"),
        "skipped": "import pytest\npytest.skip('no GPU here', allow_module_level=True)\n",
        "warning": WARNING + MY_PROJECT,
    }
    (folder / "my_project").mkdir()
    for name, source in modules.items():
        (folder / f"my_project/{name}.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


# Collection


@pytest.fixture(scope="module")
def no_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("baselines")


def collected(no_storage: Path, *arguments: str) -> list[str]:
    return pytest_perf(no_storage, "perf", "--collect-only", "-q", *arguments).exits(0).test_ids


def test_each_workload_has_tests_of_its_own_and_a_precision_is_part_of_its_name(no_storage: Path) -> None:
    tests = collected(no_storage, "--workload=vit_tiny", "--workload=gpt2_124m", "-k", "1cpu-single")
    assert tests == [f"perf/test_scaling.py::test_scaling[{name}-1cpu-single]" for name in ("vit_tiny", "gpt2_124m")]
    both = ("--precision=autocast", "--precision=fp32", "--precision=autocast")
    ids = collected(no_storage, "-k", "throughput and no_comm", *both)
    name = "perf/test_throughput.py::test_throughput"
    assert ids == [
        f"{name}[vit_tiny_autocast-2cpu-no_comm]",
        f"{name}[vit_tiny-2cpu-no_comm]",
    ]


def test_a_workload_may_warn_while_it_is_imported_or_be_a_built_in_one(
    no_storage: Path, my_project: dict[str, str]
) -> None:
    asked = ("perf", "--collect-only", "-q", "-k", "1cpu-single", "--workload=my_project.warning:workload")
    outcome = pytest_perf(no_storage, *asked, variables=my_project)
    assert outcome.test_ids == ["perf/test_scaling.py::test_scaling[mine-1cpu-single]"]
    asked = ("perf", "--collect-only", "-q", "-k", "1cpu-single", "--workload=my_project.taken:built_in")
    outcome = pytest_perf(no_storage, *asked, variables=my_project)
    assert outcome.test_ids == ["perf/test_scaling.py::test_scaling[vit_tiny-1cpu-single]"]


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--workload=vit", f"no workload named 'vit': there are {BUILT_IN}"),
        ("--workload=my_project.training", f"{BUILT_IN}; name your own as PKG.MODULE:ATTR"),
        (
            "--workload=my_project/training.py:workload",
            "my_project/training.py is a file: name the module, such as my_project.training:workload, and put the "
            "folder that contains it on PYTHONPATH",
        ),
        ("--workload=my_project.nothing:workload", "No module named 'my_project.nothing' (my_project is /"),
        ("--workload=no_project.job:workload", "(put the folder that has no_project on PYTHONPATH)"),
        ("--workload=my_project.broken:workload", "importing it raised KeyError: 'learning_rate' (/"),
        ("--workload=my_project.unfinished:workload", "/my_project/unfinished.py, line 1)"),
        ("--hook=my_project.calls:hook", "/my_project/calls.py, line 3)"),
        ("--workload=my_project.script:workload", "importing it raised SystemExit: 0"),
        ("--workload=my_project.leaves:workload", "its process exited with code 0 while importing my_project.leaves"),
        ("--workload=my_project.joins:workload", "the module calls init_process_group when it is imported: ranks have"),
        ("--workload=my_project.joined:workload", "the module calls init_process_group when it is imported: ranks"),
        ("--workload=my_project.silent:workload", "importing it raised E: <E without a text> (/"),
        ("--workload=my_project.unnamed:workload", "--workload my_project.unnamed:workload: its name is a int, not a"),
        ("--workload=my_project.skipped:workload", "importing it raised Skipped: no GPU here"),
        ("--workload=my_project.training:workload2", "module 'my_project.training' has no 'workload2'"),
        (f"--workload={WORKLOADS}:no_workload", "is a str, not a Workload"),
        (
            "--workload=my_project.taken:vit_tiny",
            "the name 'vit_tiny' is the suite's own, and baselines go by the name: give yours another one",
        ),
        ("--workload=my_project.taken:all_reduce", "the name 'all_reduce' is the suite's own"),
        ("--workload=vit_tiny@autocast", "--workload vit_tiny@autocast: choose the precision with --precision"),
        ("--explain=none --traces=traces", "--traces keeps what profiled launches record, and with --explain none"),
        ("--traces=/proc/traces", "--traces /proc/traces: cannot write there: "),
        ("--precision=fp8", "--precision: no precision named 'fp8': there are fp32, tf32, autocast"),
        ("--precision=tf32", "--precision tf32 needs a GPU, this machine has none"),
        ("--minutes=0 --tune", "--minutes must be over 0, got 0"),
        ("--interconnect=shm", "--interconnect shm is NCCL's between GPUs and needs 2 of them, this machine has 0"),
        ("--interconnect=wire", "no interconnect named 'wire': there are native, shm, net"),
        ("--instance=../elsewhere", "--instance '../elsewhere': a name has letters, digits, '.', '_' and '-' only"),
        (
            "--require-baseline --benchmark-disable",
            "--require-baseline: with --benchmark-disable nothing is judged by the baselines",
        ),
        ("--against-env=NCCL_ALGO", "--against-env 'NCCL_ALGO': give NAME=VALUE, such as NCCL_MAX_CTAS=4"),
        (
            "--against-env=A=1 --sensitivity=10",
            "--sensitivity: with --against-env nothing is judged by the baselines",
        ),
        (
            "--against-env NCCL_ALGO=Ring --benchmark-disable",
            "--against-env compares measurements, and --benchmark-disable makes none",
        ),
        (
            "--against-env NCCL_ALGO=Ring --require-baseline",
            "--require-baseline: with --against-env nothing is judged by the baselines",
        ),
        ("--benchmark-group-by=config", "--benchmark-group-by config: there are group, name, func, "),
        ("--hypothesis-profile=nightyl", "--hypothesis-profile: no profile is named 'nightyl': give nightly"),
        ("--benchmark-json=no/such/folder/run.json", "--benchmark-json: there is no folder"),
        ("--benchmark-json=tests", "--benchmark-json tests: is a folder, not a file"),
        ("--junitxml=README.md/junit.xml", "--junitxml README.md/junit.xml: cannot write there: Not a directory"),
        ("--benchmark-json=/proc/run.json", "--benchmark-json /proc/run.json: cannot write there: "),
        *((f"{option}={'x' * 300}", "File name too long") for option in OF_FILES),
        (
            "--benchmark-storage=s3://me:s3cr3t@host/a",
            "--benchmark-storage s3://me:***@host/a: Storage must be in",
        ),
        ("--benchmark-storage=elasticsearch+http://host/a", "--benchmark-storage elasticsearch+http://host/a: "),
    ],
)
def test_wrong_input_is_reported_in_one_line(
    no_storage: Path, my_project: dict[str, str], arguments: str, complaint: str
) -> None:
    outcome = pytest_perf(no_storage, "perf", *arguments.split(), variables=my_project).exits(
        pytest.ExitCode.USAGE_ERROR
    )
    (line,) = outcome.errors.strip().splitlines()
    assert line.startswith("ERROR: --")
    assert complaint in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--quik",), "  did you mean: --quick\n"),
        (("-k", "powersdg_rank1"), "-k selects no test: powersdg_rank1, did you mean powersgd_rank1? ("),
        (("-k", "nosuchthing"), "-k selects no test: nosuchthing is in no name ("),
        (("-k", "8gpu and bf16"), "-k selects no test: this machine has no world 8gpu: it has 1cpu, 2cpu (no GPU, so "),
        (("--workload=my_project.training:worklaod",), "has no 'worklaod', did you mean workload?\n"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    no_storage: Path, my_project: dict[str, str], arguments: tuple[str, ...], says: str
) -> None:
    outcome = pytest_perf(no_storage, "perf", *arguments, variables=my_project)
    assert outcome.exit_code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert says in outcome.errors + outcome.output


@pytest.mark.parametrize(
    ("arguments", "visible", "says"),
    [
        *(
            (more, "", f"Wrong expression passed to '{more[0]}': {more[1]}: at column ")
            for more in (("-k", "bf16 and"), ("-k", "bf16 and", "--quick"), ("-m", "slow or ("))
        ),
        (("--collect-only",), "MIG-1c5f", "CUDA_VISIBLE_DEVICES names a MIG slice, only whole GPUs can be measured"),
    ],
)
def test_wrong_grammar_and_a_part_of_a_gpu_are_refused_in_one_line(
    no_storage: Path, arguments: tuple[str, ...], visible: str, says: str
) -> None:
    outcome = pytest_perf(no_storage, "perf", *arguments, variables={"CUDA_VISIBLE_DEVICES": visible}).exits(
        pytest.ExitCode.USAGE_ERROR
    )
    (line,) = outcome.errors.strip().splitlines()
    assert line.startswith(f"ERROR: {says}")
    assert not outcome.output


def test_outside_its_environment_the_suite_says_so_in_one_line(no_storage: Path) -> None:
    """As with a Python that lacks msgspec."""
    lacking = "import sys; sys.modules['msgspec'] = None; import pytest; sys.exit(pytest.main(['perf']))"
    done = subprocess.run([sys.executable, "-c", lacking], cwd=ROOT, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"ERROR: {sys.executable} has no msgspec: run .venv/bin/pytest, or install the suite there: "
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


# A run


@pytest.fixture(scope="module")
def five_tests(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return pytest_perf(
        tmp_path_factory.mktemp("baselines"),
        *("perf/test_scaling.py", "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-bf16]"),
        *QUICK,
        variables={"COLUMNS": "100"},
    )


def test_a_users_own_workload_is_measured_and_what_cannot_be_is_named(
    no_storage: Path, my_project: dict[str, str]
) -> None:
    """That ranks import a user's modules is shown by tests/e2e/test_own_hooks.py."""
    outcome = pytest_perf(
        no_storage,
        *("perf/test_throughput.py", "-v", "--workload=my_project.training:workload"),
        *("-k", "ddp_default or powersgd_rank4", "--launches=1", "--steps=3", "--warmup=1"),
        variables=my_project,
    ).exits(0)
    assert re.search(r"\[mine-2cpu-ddp_default\] +\d+\.\d\d ms/step  no baseline", outcome.output)
    reason = "powersgd_rank4 compresses from step 4 on: it needs --warmup 4 or more, got 1"
    assert f" not collected: {reason} (1 test); " in outcome.unwrapped
    assert " 1 passed, " in outcome.output


def test_each_test_has_a_line_while_the_run_goes_on(five_tests: Outcome) -> None:
    assert five_tests.exit_code == 0, five_tests.output
    # No time is left to tell: the last function has not run yet.
    line = r"^\[{}/5\] {} +\d+\.\d\d ms/step  no baseline$"
    assert re.search(r"^starting 1 x 2 ranks \.\.\.$", five_tests.output, re.MULTILINE)
    for number, test in enumerate(("1cpu-single", "1cpu-ddp", "2cpu-ddp", "2cpu-bucket_10mb"), start=1):
        pattern = line.format(number, re.escape(f"test_scaling[vit_tiny-{test}]"))
        assert re.search(pattern, five_tests.output, re.MULTILINE), pattern
    last = line.format(5, re.escape("test_throughput[vit_tiny-2cpu-bf16]"))
    assert re.search(last, five_tests.output, re.MULTILINE)


def test_disabled_every_test_runs_once_and_nothing_is_kept(no_storage: Path) -> None:
    outcome = pytest_perf(
        no_storage,
        *("perf/test_throughput.py", f"--workload={WORKLOADS}:steady", "-k", "ddp_default", *QUICK),
        *("--benchmark-disable", "--benchmark-save=nothing"),
    ).exits(0)
    assert re.search(r"^\[1/1\] test_throughput\[steady-2cpu-ddp_default\] +ran once$", outcome.output, re.MULTILINE)
    assert list(no_storage.rglob("*.json")) == []


def test_the_handlers_of_signals_are_given_back() -> None:
    program = (
        "import signal, pytest\n"
        "signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)\n"
        "before = [signal.getsignal(one) for one in signals]\n"
        "pytest.main(['perf/test_throughput.py', '--collect-only', '-q', '-p', 'no:cacheprovider'])\n"
        "assert [signal.getsignal(one) for one in signals] == before\n"
    )
    assert run(sys.executable, "-c", program).exit_code == 0


def test_python_without_asserts_is_refused_in_one_line() -> None:
    listing = (sys.executable, "-m", "pytest", "perf/test_throughput.py", "--collect-only")
    outcome = run(*listing, variables={"PYTHONOPTIMIZE": "1"}).exits(pytest.ExitCode.USAGE_ERROR)
    assert outcome.errors.strip().startswith("ERROR: python -O and PYTHONOPTIMIZE leave out the assert statements")
    assert "Traceback" not in outcome.output + outcome.errors


def test_a_full_disk_behind_the_output_of_a_command_is_one_line(tmp_path: Path) -> None:
    trace = ddp_steps().chrome(tmp_path / "rank0.json")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "fixtures", "explain", trace],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_ctrl_c_while_a_command_starts_is_one_line() -> None:
    """A module that it imports raises what Ctrl-C raises."""
    program = (
        "import runpy, sys\n"
        "class Raises:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'msgspec': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Raises())\n"
        "sys.argv[1:] = ['check', 'bf16']\n"
        "runpy.run_module('fixtures', run_name='__main__')\n"
    )
    outcome = run(sys.executable, "-c", program)
    assert (outcome.exit_code, outcome.output, outcome.errors) == (130, "", "interrupted\n")


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    outcome = command_here("chek", "bf16").exits(2)
    assert "no command is named 'chek', did you mean check?: there are run, " in outcome.errors
