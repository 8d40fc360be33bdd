"""The bandwidth curve: its arithmetic, the links' limit, and bare all-reduces live over gloo."""

import json
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf

# As a user runs it

ONE = ("perf/test_collectives.py", "-k", "all_reduce_1mb or all_reduce_4mb", *QUICK)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder of the baselines, and the run that saved one."""
    storage = tmp_path_factory.mktemp("baselines")
    grouped = "--benchmark-group-by=param:config,param:collective"
    return storage, pytest_perf(storage, *ONE, "--benchmark-save=first", f"--junitxml={storage / 'junit.xml'}", grouped)


def test_a_slower_all_reduce_fails_with_one_line(saved: tuple[Path, Outcome], tmp_path: Path) -> None:
    (file,) = saved[0].rglob("*.json")
    record = json.loads(file.read_text())
    for benchmark in record["benchmarks"]:  # as on a machine with a link a thousand times as fast
        benchmark["extra_info"]["launch_medians_s"] = [t / 1000 for t in benchmark["extra_info"]["launch_medians_s"]]
    record["environment"]["torch"] = "2.0"
    (tmp_path / file.parent.name).mkdir()
    (tmp_path / file.parent.name / file.name).write_text(json.dumps(record))
    outcome = pytest_perf(tmp_path, *ONE)
    assert outcome.exit_code == 1, outcome.output
    assert outcome.output.count("ms an all-reduce, ") >= 2
    assert "torch 2.0 -> " in outcome.output


def test_grouping_by_a_parameter_that_a_test_has_not_leaves_it_empty(saved: tuple[Path, Outcome]) -> None:
    for size in ("1mb", "4mb"):
        assert f" benchmark 'config= collective=all_reduce_{size}': 1 tests " in saved[1].output


@pytest.fixture(scope="module")
def unsaved(saved: tuple[Path, Outcome], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The folder of a baseline, and a run that cannot write its JSON."""
    storage = tmp_path_factory.mktemp("unsaved")
    (file,) = saved[0].rglob("*.json")
    (storage / file.parent.name).mkdir()
    (storage / file.parent.name / file.name).write_text(file.read_text())
    chosen = ("perf/test_collectives.py", "-k", "1mb", *QUICK, "--min-slowdown=1e6")
    return storage, pytest_perf(storage, *chosen, "--benchmark-json=/dev/full")


def test_what_cannot_be_written_costs_the_exit_code_and_not_the_table(unsaved: tuple[Path, Outcome]) -> None:
    storage, outcome = unsaved
    assert [file.name for file in storage.rglob("*") if file.is_file()] == ["0001_first.json"]
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "bare all-reduces on 2cpu, float32\n" in outcome.output
    assert "\nERROR: not saved: /dev/full: No space left on device\n" in outcome.output
    assert "Traceback" not in outcome.output + outcome.errors
