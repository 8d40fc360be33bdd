"""The command line in separate processes: the time to list tests, the effect of a bad rank, an interrupted run."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.command_line import QUICK, Outcome, run
from tests.forked import live_perf

WORKLOADS = "tests.workloads_for_tests"

# pytest, with what is imported by then taken for Linux's.
ON_A_MAC = """
import pytest, sys

class Mac:
    def pytest_cmdline_main(self):
        sys.platform = "darwin"

sys.exit(pytest.main(sys.argv[1:], [Mac()]))
"""
LISTING = """
import pytest, sys
code = pytest.main(["perf", "--collect-only", "-q", "-p", "no:cacheprovider"])
assert "torch" not in sys.modules
sys.exit(code)
"""


# Collection


def cpu_s(*command: str) -> float:
    """CPU seconds of a command, which other work on the machine changes less than wall seconds."""
    before = os.times()
    run(*command).exits(0)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_tests_are_listed_without_torch_as_fast_as_it_is_imported() -> None:
    """2.5 and 3 s on a machine without other work, where the largest share of both is imports."""
    assert 0 < cpu_s(sys.executable, "-c", LISTING) <= 1.2 * cpu_s(sys.executable, "-c", "import torch")


def test_another_system_than_linux_is_reported(tmp_path: Path) -> None:
    arguments = ["perf", "--collect-only", f"--benchmark-storage={tmp_path}"]
    outcome = run(sys.executable, "-c", ON_A_MAC, *arguments).exits(pytest.ExitCode.USAGE_ERROR)
    assert outcome.errors.strip() == "ERROR: ddp-perf measures on Linux, this is darwin"


# A bad rank, and an interrupted run


@pytest.fixture(scope="module")
def bad_ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run in which the first test and the third lose a rank, and the fourth is interrupted; its folder."""
    folder = tmp_path_factory.mktemp("bad_ranks")
    outcome = live_perf(
        folder / "baselines",
        *("perf/test_throughput.py", "-k", "ddp_default", *QUICK, "--explain=none"),
        *(f"--workload={WORKLOADS}:{name}" for name in ("raising", "steady", "dying", "interrupting")),
        *(f"--junitxml={folder / 'junit.xml'}", f"--benchmark-json={folder / 'run.json'}", "--benchmark-save=half"),
        f"--report={folder / 'report'}",
    )
    return outcome, folder


@pytest.fixture(scope="module")
def failures(bad_ranks: tuple[Outcome, Path]) -> dict[str, str | None]:
    """Workload -> message of its test's failure in JUnit's file."""
    cases = ElementTree.parse(bad_ranks[1] / "junit.xml").iter("testcase")
    return {case.get("name", "").partition("[")[2].partition("-")[0]: case.findtext("failure") for case in cases}


def test_a_bad_rank_costs_one_test(bad_ranks: tuple[Outcome, Path], failures: dict[str, str | None]) -> None:
    outcome, _ = bad_ranks
    assert [name for name, failure in failures.items() if failure] == ["raising", "dying"]
    assert "2 failed, 1 passed" in outcome.output
    assert "FAILED perf/test_throughput.py::test_throughput[raising-2cpu-ddp_default]" in outcome.output
    assert "another exception occurred" not in outcome.output


@pytest.mark.parametrize(
    ("workload", "headline", "step", "detail"),
    [
        ("raising", "raised ValueError: the label is out of range", 5, "in _raises"),
        ("dying", "died of SIGKILL", 5, "also rank 0"),
    ],
)
def test_a_failure_names_rank_config_and_step(
    failures: dict[str, str | None], workload: str, headline: str, step: int, detail: str
) -> None:
    """A hanging rank is reported in the same way: tests/ranks/test_rank_sets.py."""
    failure = failures[workload]
    assert failure is not None
    assert failure.splitlines()[0] == (f"launch 1 of ddp_default on 2cpu: rank 1 {headline} at step {step} (forward)")
    assert detail in failure


def test_an_interrupted_run_is_no_baseline_and_has_a_report_with_failures(
    bad_ranks: tuple[Outcome, Path],
) -> None:
    outcome, folder = bad_ranks
    assert outcome.exit_code == pytest.ExitCode.INTERRUPTED, outcome.output
    assert "interrupted: no baseline was saved" in outcome.output
    assert list(folder.rglob("*half.json")) == []
    # Any: JSON.
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert record["interrupted"] is True
    assert [one["name"] for one in record["benchmarks"]] == ["test_throughput[steady-2cpu-ddp_default]"]
    summary = " ".join((folder / "report/report.md").read_text().split())
    assert " verdict: interrupted, 1 of 4 speed tests measured; no stored run of" in summary
    assert "the label is out of range" in summary
    assert "died of SIGKILL" in summary
    assert (folder / "report/run.json").read_bytes() == (folder / "run.json").read_bytes()
