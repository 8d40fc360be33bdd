"""``--explain`` and ``--traces``: which tests get a profiled launch, what is recorded and shown, where traces go."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.trace.breakdown import break_down
from fixtures.trace.recordings import read
from tests.command_line import QUICK, Outcome, pytest_perf

STEADY = ("--workload", "tests.workloads_for_tests:steady")


def perf(storage: Path, *arguments: str, step_ms: str = "20", only: str = "2cpu-ddp]") -> Outcome:
    variables = {"DDP_PERF_TESTS_STEP_MS": step_ms}
    return pytest_perf(storage, "perf/test_scaling.py", "-k", only, *STEADY, *QUICK, *arguments, variables=variables)


def record(path: Path) -> dict[str, Any]:
    (benchmark,) = json.loads(path.read_text())["benchmarks"]
    info: dict[str, Any] = benchmark["extra_info"]
    return info


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A baseline, with traces, and where it is."""
    folder = tmp_path_factory.mktemp("saved")
    return folder, perf(folder / "baselines", "--benchmark-save=first", f"--traces={folder / 'new' / 'traces'}")


def saved_record(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "baselines").rglob("*.json")
    return record(file)


def test_a_save_profiles_every_test_and_keeps_its_breakdown(saved: tuple[Path, Outcome]) -> None:
    folder, outcome = saved
    assert outcome.exit_code == 0, outcome.output
    info = saved_record(folder)
    assert sum(info["breakdown_ms"].values()) == pytest.approx(info["profiled_step_ms"], rel=1e-6)
    assert info["profiled_steps"] >= 3
    assert info["all_reduces"] == 1
    assert info["communication_ms"] > 0


def test_a_sleeping_forward_is_idle_time_not_compute(saved: tuple[Path, Outcome]) -> None:
    info = saved_record(saved[0])
    assert info["breakdown_ms"]["idle"] > 19
    assert info["phases_on_device_ms"]["forward"] > 20


def test_the_breakdown_is_shown_under_the_table(saved: tuple[Path, Outcome]) -> None:
    _, outcome = saved
    _, found, below = outcome.output.partition("where a step of steady on 2cpu goes, on the CPU, profiled")
    assert found
    assert below.splitlines()[4].startswith("ddp ")
    assert re.search(r"\n\nphases on the host, ms: get batch [\d.]+, forward [\d.]+, backward [\d.]+, ", below), below


def test_the_buckets_of_a_test_profiled_alone_are_shown_and_recorded(saved: tuple[Path, Outcome]) -> None:
    folder, outcome = saved
    _, found, below = outcome.output.partition("the collectives of a step of ddp, after the start of its backward pass")
    assert found
    assert " all_reduce " in below
    ledger = saved_record(folder)["ledger"]
    assert ledger["one_to_one"]
    (bucket,) = ledger["buckets"]
    assert bucket["bytes"] == saved_record(folder)["bucket_bytes"][0]
    assert bucket["largest_parameter"] in bucket["parameters"]
    assert len(ledger["collectives"]) == 1


def test_there_is_one_trace_a_rank_named_for_the_test(saved: tuple[Path, Outcome]) -> None:
    traces = saved[0] / "new" / "traces"
    names = [f"test_scaling-steady-2cpu-ddp-rank{rank}.json.gz" for rank in range(2)]
    assert sorted(path.name for path in traces.iterdir()) == names
    assert saved_record(saved[0])["traces"] == names
    ranks = [break_down(timeline) for name in names for timeline in read(traces / name)]
    assert [rank.rank for rank in ranks] == [0, 1]


def test_what_cannot_be_profiled_is_said_and_the_measurement_stands(tmp_path: Path) -> None:
    arguments = ("--explain=all", f"--benchmark-json={tmp_path / 'run.json'}")
    unprofilable = ("--workload", "tests.workloads_for_tests:unprofilable")
    outcome = pytest_perf(tmp_path, "perf/test_scaling.py", "-k", "1cpu-ddp]", *unprofilable, *QUICK, *arguments)
    assert outcome.exit_code == 0, outcome.output
    assert "not profiled: test_scaling[unprofilable-1cpu-ddp]: profiling ddp on 1cpu" in outcome.output
    assert "cannot be profiled" in record(tmp_path / "run.json")["unexplained"]
