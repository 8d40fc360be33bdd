"""--against-env with fake ranks: the verdict, its words, the record and JUnit."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf
from tests.saved_records import read
from tests.workloads_for_tests import STEP_MS

STEADY = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", "-k", "2cpu-ddp]", *QUICK)


def against_env(folder: Path, *arguments: str, step_ms: str) -> Outcome:
    """Steps of 20 ms on this side, of ``step_ms`` on the other one."""
    chosen = (*STEADY, "--launches=2", f"--against-env={STEP_MS}={step_ms}", f"--benchmark-json={folder / 'run.json'}")
    return pytest_perf(folder / "baselines", *chosen, *arguments)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    folder = tmp_path_factory.mktemp("slower")
    return against_env(
        folder, f"--junitxml={folder / 'junit.xml'}", f"--traces={folder / 'traces'}", step_ms="10"
    ), folder


def test_what_the_variable_would_make_faster_fails(slower: tuple[Outcome, Path]) -> None:
    outcome, _ = slower
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED, outcome.output
    assert re.search(rf"slower by \d+\.\d\d % than with {STEP_MS}=10 \(95 % interval", outcome.output)
    assert re.search(rf"^\+10 ms a step: .*; {STEP_MS} 10 -> unset$", outcome.output, re.MULTILINE), outcome.output
    assert f"starting 2 x 2 ranks and 2 x 2 ranks with {STEP_MS}=10 ..." in outcome.output
    assert f"this environment against the same with {STEP_MS}=10: 1 slower\n" in outcome.output
    assert f"[steady-2cpu-ddp]' {STEADY[1]} --benchmark-storage=" in outcome.unwrapped
    assert f" --against-env={STEP_MS}=10 --explain=all" in outcome.unwrapped
    assert "build" not in outcome.output


def test_the_record_and_junit_keep_the_variables(slower: tuple[Outcome, Path]) -> None:
    recorded = read(slower[1] / "run.json")
    (benchmark,) = recorded["benchmarks"]
    against = benchmark["extra_info"]["against"]
    assert against["build"] == f"with {STEP_MS}=10"
    assert against["variables"] == {STEP_MS: "10"}
    assert "variables_in_nccl_log" not in against
    assert max(against["launch_medians_s"]) < 0.015 < min(benchmark["extra_info"]["launch_medians_s"])
    assert STEP_MS not in recorded["environment"]["variables"]
    root = ElementTree.parse(slower[1] / "junit.xml").getroot()
    found = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    assert found["against"] == f"with {STEP_MS}=10"
    low, change, high = (float(found[f"{name}_percent"]) for name in ("interval_low", "change", "interval_high"))
    assert low <= change <= high
    assert 0 < float(found["other_step_ms"]) < float(found["step_ms"])


def test_explain_all_ranks_what_differs_between_the_sides_also_where_it_is_not_slower(tmp_path: Path) -> None:
    outcome = against_env(tmp_path, "--explain=all", step_ms="40").exits(0)
    _, _, shown = outcome.output.partition("what differs in a step of test_scaling[")
    found = [float(ms) for ms in re.findall(r" ([+-]\d+\.\d\d)", shown.partition("also: ")[0])]
    assert found == [-20.0, -20.0]  # the sleep, and its phase; all else is the same
    assert re.search(r"^idle +\d+\.\d\d", shown, re.MULTILINE)
    assert f"also: {STEP_MS} 40 -> unset" in shown


def test_without_a_baseline_no_run_that_requires_one_is_advised(tmp_path: Path) -> None:
    said = against_env(tmp_path, step_ms="40").unwrapped.partition(" next: ")[2]
    assert said.startswith("record a baseline, to watch it every night: ")
    command = f" perf {STEADY[1]} --benchmark-storage={tmp_path / 'baselines'} --benchmark-save=NAME "
    assert command in said


def test_what_the_variable_would_make_slower_passes_and_is_saved(tmp_path: Path) -> None:
    outcome = against_env(tmp_path, "--benchmark-save=mine", step_ms="40").exits(0)
    assert f"this environment against the same with {STEP_MS}=40: 1 faster\n" in outcome.output
    (saved,) = (tmp_path / "baselines").rglob("*.json")
    (benchmark,) = read(saved)["benchmarks"]
    assert benchmark["extra_info"]["against"]["variables"] == {STEP_MS: "40"}
    assert max(benchmark["stats"]["data"]) < 0.03
