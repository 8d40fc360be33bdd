"""Whole runs on live ranks: measurements and profiles arrive in the record, in JUnit's file and in the tables."""

import gzip
import json
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from fixtures.trace.breakdown import break_down
from tests.command_line import QUICK, Outcome, pytest_perf
from tests.recordings import timelines
from tests.saved_records import Record, ids_in, infos, records_of
from tests.workloads_for_tests import STEP_MS

STEADY, UNPROFILABLE = (f"--workload=tests.workloads_for_tests:{name}" for name in ("steady", "unprofilable"))
FILES = ("perf/test_scaling.py", "perf/test_throughput.py", "perf/test_collectives.py")
SINGLE = "perf/test_scaling.py::test_scaling[steady-1cpu-single]"
ONE_RANK = "perf/test_scaling.py::test_scaling[steady-1cpu-ddp]"
OF_TWO_RANKS = "test_scaling[steady-2cpu-ddp]"
TWO_RANKS = f"perf/test_scaling.py::{OF_TWO_RANKS}"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run saved where there was no baseline before, and its storage; JUnit's file and the traces are in the same
    folder."""
    storage = tmp_path_factory.mktemp("first") / "baselines"
    chosen = (
        "(steady and (scaling and not bucket or bf16] or no_comm])) or all_reduce_1mb or 4mb or unprofilable-1cpu-ddp]"
    )
    arguments = ("-p", "tests.quiet_machine", *FILES, "-k", chosen, STEADY, UNPROFILABLE, *QUICK)
    outputs = ("--benchmark-save=first", "--explain=all", f"--junitxml={storage.parent / 'junit.xml'}")
    folders = (f"--traces={storage.parent / 'new' / 'traces'}", f"--report={storage.parent / 'report'}")
    return pytest_perf(storage, *arguments, *outputs, *folders, variables={STEP_MS: "40"}), storage


def infos_of(storage: Path) -> dict[str, Record]:
    """The tests of the only record."""
    (record,) = records_of(storage).values()
    return infos(record)


def test_a_record_has_every_step_and_what_was_measured(first: tuple[Outcome, Path]) -> None:
    (record,) = records_of(first[1]).values()
    assert {SINGLE, ONE_RANK, TWO_RANKS} < {*ids_in(record)}
    two_ranks = record["benchmarks"][ids_in(record).index(TWO_RANKS)]
    info = two_ranks["extra_info"]
    assert len(two_ranks["stats"]["data"]) == 3
    assert all(step_s >= 0.04 for step_s in two_ranks["stats"]["data"])
    assert info["launch_medians_s"] == [sorted(two_ranks["stats"]["data"])[1]]
    assert info["steps_per_s"] == pytest.approx(1 / info["launch_medians_s"][0])
    assert info["samples_per_s"] == pytest.approx(info["steps_per_s"] * 2 * 2)
    gradients = 2 * (64 * 64 + 64) * 4
    expected = {
        "workload": "steady",
        "config": "ddp",
        "world": "2cpu",
        "world_size": 2,
        "backend": "gloo",
        "interconnect": "native",
        "lossless": True,
        "wire_bytes_per_step": 2 * gradients,
        "wire_dtype": "float32",
        "buckets": 1,
        "transport": {},
        "gpu_state": {"launches": [None], "gpu_warnings": []},
    }
    assert {key: info[key] for key in expected} == expected
    assert info["fingerprint"] == {"pairs": {}, "connected": []}  # what a log of NCCL has
    assert info["peak_memory_bytes"] > 0
    assert info["verdict"] == {
        "word": "no baseline",
        "change_percent": None,
        "threshold_percent": None,
        "p_value": None,
        "history": 0,
        "reason": "no baseline of this instance has this test",
    }
    native = record["canaries"]["native"]
    assert native["world"] == "2cpu"
    assert {len(times) for took in native["canaries"].values() for times in took.values()} == {1}


# What is profiled, as a save profiles every test


def test_a_save_profiles_every_test_and_keeps_and_shows_its_breakdown(first: tuple[Outcome, Path]) -> None:
    info = infos_of(first[1])[OF_TWO_RANKS]
    assert sum(info["breakdown_ms"].values()) == pytest.approx(info["profiled_step_ms"], rel=1e-6)
    assert info["profiled_steps"] >= 3
    assert info["all_reduces"] == 1
    assert info["communication_ms"] > 0
    assert info["breakdown_ms"]["idle"] > 39  # a sleeping forward pass is no compute
    assert info["phases_on_device_ms"]["forward"] > 40
    _, found, below = first[0].output.partition("where the time of a step of steady on 2cpu goes, profiled on the CPU")
    assert found
    assert below.splitlines()[4].startswith("ddp ")
    assert ("advice for ddp of steady on 2cpu, " in first[0].output) == ("predict" in EXTRAS)


def test_the_ledger_has_ddps_buckets(first: tuple[Outcome, Path]) -> None:
    info = infos_of(first[1])[OF_TWO_RANKS]
    ledger = info["ledger"]
    assert "mismatch" not in ledger
    (bucket,) = ledger["buckets"]
    assert bucket["bytes"] == info["bucket_bytes"][0]
    assert bucket["largest_parameter"] in bucket["parameters"]
    assert len(ledger["collectives"]) == 1


def test_there_is_one_trace_a_rank_named_for_the_test(first: tuple[Outcome, Path]) -> None:
    traces = first[1].parent / "new" / "traces"
    names = [f"test_scaling-steady-2cpu-ddp-rank{rank}.json.gz" for rank in range(2)]
    assert sorted(path.name for path in traces.glob("test_scaling-steady-2cpu-*")) == names
    assert infos_of(first[1])[OF_TWO_RANKS]["traces"] == names
    ranks = [break_down(timeline) for name in names for timeline in timelines(traces / name)]
    assert [rank.rank for rank in ranks] == [0, 1]


@pytest.mark.skipif("page" not in EXTRAS, reason="the extra page was deleted")
def test_the_report_has_a_step_of_both_ranks_as_one_trace(first: tuple[Outcome, Path]) -> None:
    report = first[1].parent / "report"
    assert f"report: {report / 'report.html'}" in first[0].output
    trace = json.loads(gzip.decompress((report / "trace_test_scaling-steady-2cpu-ddp.json.gz").read_bytes()))
    assert {event["pid"] for event in trace["traceEvents"] if event["name"] == "gloo:all_reduce"} == {1, 2}
    page = (report / "report.html").read_text()
    assert "One step by rank: ddp" in page
    assert 'href="trace_test_scaling-steady-2cpu-ddp.json.gz"' in page


def test_what_cannot_be_profiled_is_reported_and_the_measurement_stands(first: tuple[Outcome, Path]) -> None:
    test = "test_scaling[unprofilable-1cpu-ddp]"
    assert f"not profiled: {test}: profiling ddp on 1cpu" in first[0].output
    assert "cannot be profiled" in infos_of(first[1])[test]["unexplained"]
