"""An error in any task at the end of a run: one line, exit code 1; the table, the JSON and the baseline are there."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf
from tests.runs.failing_task import TASK, TASKS
from tests.runs.slower_config import SEEN, SLOWER

TESTS = {f"perf/test_throughput.py::test_throughput[steady-2cpu-{config}]" for config in ("ddp_default", "bf16")}
LOST = "perf/test_throughput.py::test_throughput[steady-2cpu-bf16]"
# The files that a task writes itself, and the table, are lost with it.
COSTS = {
    "saving the results": {"json", "baseline"},
    "fixtures.session.run_record.pytest_benchmark_update_json": {"baseline"},
    "--benchmark-json": {"json"},
    "fixtures.report.table.pytest_terminal_summary": {"table"},
    "fixtures.report.table._write_tables": {"table"},
    "fixtures.report.columns.table": {"table"},
}


def run(folder: Path, *arguments: str, **variables: str) -> Outcome:
    return perf(
        folder / "baselines",
        *(*sorted(TESTS), *QUICK, "--workload=tests.workloads_for_tests:steady", "--instance=rack-7"),
        *("--explain=all", "--benchmark-save=night", f"--benchmark-json={folder / 'run.json'}"),
        *(f"--report={folder / 'report'}", "-p", "tests.runs.failing_task", *arguments),
        variables={TASKS: str(folder / "tasks"), **variables},
    )


def names_in(file: Path) -> set[str]:
    return {one["fullname"] for one in json.loads(file.read_text())["benchmarks"]}


def found(folder: Path, outcome: Outcome) -> dict[str, set[str]]:
    """The tests in the table, in the JSON, and in the baseline or the record set aside."""
    rows = {line.split()[0] for line in outcome.output.splitlines() if re.search("(no baseline|slower)$", line)}
    return {
        "table": {test for test in TESTS if test.rpartition("-")[2].rstrip("]") in rows},
        "json": names_in(folder / "run.json") if (folder / "run.json").exists() else set(),
        "baseline": {test for file in folder.glob("baselines*/rack-7/*.json") for test in names_in(file)},
    }


def tasks(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """The names of the tasks of a run; of those of each test and column, one."""
    folder.mkdir()
    run(folder, *arguments, **variables)
    names = dict.fromkeys((folder / "tasks").read_text().replace(str(folder), "{folder}").splitlines())
    one_of_many = {"the column ms/step", *(name for name in names if LOST in name)}
    return [name for name in names if (not name.startswith("the column ") and "[" not in name) or name in one_of_many]


def check(folder: Path, name: str, *arguments: str, **variables: str) -> None:
    """Run with an error in this task, and check what is left."""
    folder.mkdir()
    task = name.replace("{folder}", str(folder))
    outcome = run(folder, *arguments, **{TASK: task}, **variables)
    first, *more = [line for line in outcome.output.splitlines() if line.startswith("ERROR: ")]
    planted = f"ERROR: {task} failed, what does not need it is complete: LookupError: planted here ("
    assert first.startswith(planted), outcome.output
    assert not more or COSTS.get(name) == {"baseline"}, outcome.output
    assert outcome.exit_code == 1, outcome.output
    assert "INTERNALERROR" not in outcome.output + outcome.errors
    kept = TESTS - {LOST} if name == f"the record of {LOST}" else TESTS
    lost = {what for what, tests in found(folder, outcome).items() if tests < kept}
    assert lost == COSTS.get(name, set()), outcome.output


@pytest.mark.slow
def test_an_error_in_any_task_costs_its_own_lines_only(tmp_path: Path, subtests: pytest.Subtests) -> None:
    names = tasks(tmp_path / "all")
    assert len(names) > 60
    for number, name in enumerate(names):
        with subtests.test(task=name):
            check(tmp_path / str(number), name)


@pytest.mark.parametrize(
    "task", ["measuring again", "the decision", "the decision on rack-7", f"the explanation of {LOST}"]
)
def test_after_an_error_no_test_that_may_be_slower_is_saved(task: str, tmp_path: Path) -> None:
    arguments = ("-p", "tests.runs.slower_config", "--explain=failures")
    seen = {SEEN: str(tmp_path / "seen")}
    assert run(tmp_path, *arguments, **seen).exit_code == 0
    outcome = run(tmp_path, *arguments, **seen, **{SLOWER: "bf16", TASK: task})
    assert f"\nERROR: {task} failed, what does not need it is complete: LookupError: " in outcome.output
    assert outcome.exit_code == 1, outcome.output
    assert names_in(tmp_path / "run.json") == TESTS
    assert names_in(tmp_path / "baselines/rack-7/0002_night.json") == TESTS - {LOST}


def test_the_traceback_is_shown_with_v(tmp_path: Path) -> None:
    brief, long = (run(tmp_path, *more, **{TASK: "the noise of the tables"}) for more in ((), ("-v",)))
    assert "Traceback" not in brief.output
    assert "\nTraceback (most recent call last):\n" in long.output


def test_without_a_terminal_the_line_is_an_error_output(tmp_path: Path) -> None:
    outcome = run(tmp_path, "-p", "no:terminal", **{TASK: "the noise of the tables"})
    assert outcome.errors.startswith("ERROR: the noise of the tables failed, ")
    assert outcome.exit_code == 1
