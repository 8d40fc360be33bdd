"""The command line in processes of its own: how fast tests are listed, an interrupted run, what a bad rank costs."""

import json
import re
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import MY_PROJECT, QUICK, Outcome, pytest_perf, run

WORKLOADS = "tests.workloads_for_tests"

# pytest, with what is imported by then taken for Linux's.
ON_A_MAC = """
import pytest, sys

class Mac:
    def pytest_cmdline_main(self):
        sys.platform = "darwin"

sys.exit(pytest.main(sys.argv[1:], [Mac()]))
"""


@pytest.fixture(scope="module")
def my_project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user's package with a workload, and the variables that make it importable."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "my_project"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "training.py").write_text(MY_PROJECT)
    return {"PYTHONPATH": str(folder)}


# Collection


@pytest.fixture(scope="module")
def no_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("baselines")


def collected(no_storage: Path, *arguments: str) -> list[str]:
    outcome = pytest_perf(no_storage, "perf", "--collect-only", "-q", *arguments)
    assert outcome.exit_code == 0, outcome.errors
    return outcome.test_ids


def test_tests_are_listed_within_four_seconds(no_storage: Path) -> None:
    start = time.monotonic()
    collected(no_storage)
    assert time.monotonic() - start <= 4


def test_torch_is_not_imported_to_list_them() -> None:
    listing = (
        "import sys, pytest; code = pytest.main(['perf', '--collect-only', '-q']); assert 'torch' not in sys.modules"
    )
    outcome = run(sys.executable, "-c", f"{listing}; sys.exit(code)")
    assert outcome.exit_code == 0, outcome.errors


def test_another_system_than_linux_is_told_so(no_storage: Path) -> None:
    arguments = ["perf", "--collect-only", f"--benchmark-storage={no_storage}"]
    outcome = run(sys.executable, "-c", ON_A_MAC, *arguments)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert outcome.errors.strip() == "ERROR: ddp-perf measures on Linux, this is darwin"


def test_a_users_own_workload_is_measured_and_what_cannot_be_is_skipped(
    no_storage: Path, my_project: dict[str, str]
) -> None:
    outcome = pytest_perf(
        no_storage,
        *("perf/test_throughput.py", "-v", "--workload=my_project.training:workload"),
        *("-k", "ddp_default or powersgd_rank4", "--launches=1", "--steps=3", "--warmup=1"),
        variables=my_project,
    )
    assert outcome.exit_code == 0, outcome.output
    assert re.search(r"\[mine-2cpu-ddp_default\] +\d+\.\d\d ms/step  no baseline", outcome.output)
    reason = "powersgd_rank4 compresses from step 4 on: it needs --warmup 4 or more, got 1"
    assert f"[mine-2cpu-powersgd_rank4] skipped: {reason}" in outcome.unwrapped
    assert "1 passed, 1 skipped" in outcome.output


def test_an_interrupted_run_is_no_baseline(tmp_path: Path) -> None:
    outcome = pytest_perf(
        tmp_path / "baselines",
        *("perf/test_throughput.py", "-k", "ddp_default", *QUICK, "--benchmark-save=half"),
        f"--benchmark-json={tmp_path / 'run.json'}",
        *(f"--workload={WORKLOADS}:steady", f"--workload={WORKLOADS}:interrupting"),
    )
    assert outcome.exit_code == pytest.ExitCode.INTERRUPTED, outcome.output
    assert "test_throughput[steady-2cpu-ddp_default]" in outcome.output
    assert "interrupted: no baseline was saved" in outcome.output
    assert list(tmp_path.rglob("*.json")) == [tmp_path / "run.json"]
    assert json.loads((tmp_path / "run.json").read_text())["interrupted"] is True


# A bad rank


@pytest.fixture(scope="module")
def bad_ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, str | None]]:
    """A run in which every second test loses a rank: its outcome, and what JUnit's file says of each test's failure."""
    folder = tmp_path_factory.mktemp("bad_ranks")
    workloads = ("raising", "steady", "dying", "steady_again", "hanging", "steady_still")
    outcome = pytest_perf(
        folder / "baselines",
        *("perf/test_throughput.py", "-k", "ddp_default", *QUICK, "--rank-timeout=8"),
        *(f"--workload={WORKLOADS}:{name}" for name in workloads),
        *(f"--junitxml={folder / 'junit.xml'}", "--benchmark-save=whole"),
    )
    cases = ElementTree.parse(folder / "junit.xml").iter("testcase")
    failures = {case.get("name", "").partition("[")[2].partition("-")[0]: case.findtext("failure") for case in cases}
    return outcome, failures


def test_a_bad_rank_costs_one_test(bad_ranks: tuple[Outcome, dict[str, str | None]]) -> None:
    outcome, failures = bad_ranks
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert [name for name, failure in failures.items() if failure] == ["raising", "dying", "hanging"]
    assert [name for name, failure in failures.items() if not failure] == ["steady", "steady_again", "steady_still"]
    assert "3 failed, 3 passed" in outcome.output
    assert "FAILED perf/test_throughput.py::test_throughput[raising-2cpu-ddp_default]" in outcome.output
    assert "another exception occurred" not in outcome.output


@pytest.mark.parametrize(
    ("workload", "headline", "detail"),
    [
        ("raising", "raised ValueError: the label is out of range", "in _raising_loss"),
        ("dying", "died of SIGKILL", "also rank 0"),
        ("hanging", "has made no progress for 8 s", "in _hanging_loss"),
    ],
)
def test_a_failure_names_rank_config_and_step(
    bad_ranks: tuple[Outcome, dict[str, str | None]], workload: str, headline: str, detail: str
) -> None:
    failure = bad_ranks[1][workload]
    assert failure is not None
    assert failure.splitlines()[0] == (f"launch 1 of ddp_default on 2cpu: rank 1 {headline} at step 5 (forward)")
    assert detail in failure
