"""An error in any task at the end of a run: one line, exit code 1; the table, the JSON and the baseline are there."""

import json
import re
from itertools import combinations, count
from math import comb
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
    "fixtures.session.benchmark_storage.save_results": {"json", "baseline"},
    "fixtures.session.run_record.pytest_benchmark_update_json": {"baseline"},
    "--benchmark-json": {"json"},
    "fixtures.report.table.write_tables": {"table"},
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


def tasks(folder: Path) -> dict[str, bool]:
    """The names of the tasks of a run, one for all columns and one for all tests; whether a task has parts."""
    folder.mkdir()
    run(folder)
    lines = (folder / "tasks").read_text().replace(str(folder), "{folder}").splitlines()
    depths = [len(line) - len(line.lstrip()) for line in lines]
    wholes = {line.strip() for line, here, after in zip(lines, depths, [*depths[1:], 0], strict=True) if after > here}
    names = dict.fromkeys(line.strip() for line in lines)
    one_of_many = {"the column ms/step", *(name for name in names if LOST in name)}
    one_each = [
        name for name in names if (not name.startswith("the column ") and "[" not in name) or name in one_of_many
    ]
    return {name: name in wholes for name in one_each}


def shared_out(names: list[str]) -> list[list[str]]:
    """A list for each run: of any two names, some run has the first alone and some other the second.

    So an error that one task would cause in another is not taken for the error planted there.
    """
    number = next(number for number in count(2) if comb(number, number // 2) >= len(names))
    of_names = list(zip(names, combinations(range(number), number // 2), strict=False))
    return [[name for name, runs in of_names if run in runs] for run in range(number)]


def check(folder: Path, *names: str) -> set[str]:
    """Run with an error in each of these tasks, check what is left, and return the tasks that raised."""
    folder.mkdir()
    outcome = run(folder, **{TASK: "\n".join(names).replace("{folder}", str(folder))})
    output = outcome.output.replace(str(folder), "{folder}")
    reached = {line.strip().replace(str(folder), "{folder}") for line in (folder / "tasks").read_text().splitlines()}
    said = re.findall("^ERROR: (.*) failed, what does not need it is complete: (.*)", output, re.MULTILINE)
    planted = {task for task, error in said if error.startswith("LookupError: planted here (")}
    costs = set().union(*(COSTS.get(name, set()) for name in names))
    assert planted == reached & {*names}, output
    assert len(said) == len(planted) or costs == {"baseline"}, output
    assert outcome.exit_code == 1, output
    assert "INTERNALERROR" not in output + outcome.errors
    kept = TESTS - {LOST} if f"the record of {LOST}" in names else TESTS
    assert {what for what, tests in found(folder, outcome).items() if tests < kept} == costs, output
    return planted


def test_an_error_in_any_task_costs_its_own_lines_only(tmp_path: Path, subtests: pytest.Subtests) -> None:
    names = tasks(tmp_path / "all")
    assert len(names) > 60
    together = [
        name for name, whole in names.items() if not whole and name not in COSTS and "the record of" not in name
    ]
    covered = set().union(*(check(tmp_path / f"run{at}", *some) for at, some in enumerate(shared_out(together))))
    alone = [name for name in names if name not in covered]
    assert len(alone) < 20
    for number, name in enumerate(alone):
        with subtests.test(task=name):
            assert check(tmp_path / str(number), name) == {name}


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
