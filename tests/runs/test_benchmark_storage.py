"""Baselines and pytest-benchmark's options on our records: saving, judging, comparing, and required warnings."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.builders import known
from tests.command_line import QUICK, Outcome, run
from tests.fake_gpus import machine
from tests.forked import perf as pytest_perf
from tests.forked import pytest as forked_pytest
from tests.saved_records import Record, edit, forget_canaries, ids_in, records_of
from tests.workloads_for_tests import STEP_MS

# Three tests: 1cpu-single, 1cpu-ddp, 2cpu-ddp.
SCALING = ("perf/test_scaling.py", "--workload=tests.workloads_for_tests:steady", *QUICK)
SINGLE = "perf/test_scaling.py::test_scaling[steady-1cpu-single]"
ONE_RANK = "perf/test_scaling.py::test_scaling[steady-1cpu-ddp]"
TWO_RANKS = "perf/test_scaling.py::test_scaling[steady-2cpu-ddp]"
AT_BEST = "perf/test_scaling.py::test_scaling[steady-2cpu-bucket_10mb]"
BF16 = "perf/test_throughput.py::test_throughput[steady-2cpu-bf16]"

# The machine's noise stays far below a doubling of this step, a planted slowdown far above it.
STEADY = {STEP_MS: "40"}
FIVE_TIMES_SLOWER = {STEP_MS: "200"}
ONLY_WHEN_TWICE_AS_SLOW = "--min-slowdown=100"


def verdicts_in(record: Record) -> dict[str, dict[str, Any]]:
    return {benchmark["fullname"]: benchmark["extra_info"]["verdict"] for benchmark in record["benchmarks"]}


# Headings of the closing lines of a run on tests of the baseline: that should have run, and that do not exist any more.
MISSING = "in the baseline and selected, but not measured"
REMOVED = "in the baseline that this command does not run any more"


def listed(outcome: Outcome, heading: str) -> list[str]:
    """The lines under a heading with their number; nothing is no line."""
    found = re.search(rf"^(\d+) {heading}.*:\n((?:    .+\n)+)", outcome.output, re.MULTILINE)
    if not found:
        assert heading not in outcome.output
        return []
    lines = [line.strip() for line in found[2].splitlines()]
    assert len(lines) == int(found[1])
    return lines


def properties(suite: Path) -> dict[str, dict[str, str]]:
    """Test's name -> its properties in JUnit's file."""
    return {
        case.get("name", ""): {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
        for case in ElementTree.parse(suite).iter("testcase")
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run saved where there was no baseline before, and its storage."""
    storage = tmp_path_factory.mktemp("first") / "baselines"
    return pytest_perf(storage, *SCALING, "--benchmark-save=first", variables=STEADY), storage


@pytest.fixture
def storage(first: tuple[Outcome, Path], tmp_path: Path) -> Path:
    """A storage of its own with the first record in it."""
    copy = tmp_path / "baselines"
    shutil.copytree(first[1], copy)
    return copy


# Saving


def test_without_a_baseline_tests_pass_and_are_recorded(first: tuple[Outcome, Path]) -> None:
    outcome, storage = first
    (instance,) = (folder.name for folder in storage.iterdir())
    assert outcome.exit_code == 0, outcome.output
    assert f"verdict: no stored run of {instance} to compare with yet (4 measured tests)\n" in outcome.output
    assert f"saved {storage / instance / '0001_first.json'}" in outcome.output


def test_a_partial_record_hides_nobody_elses_history(storage: Path, tmp_path: Path) -> None:
    pytest_perf(
        storage,
        *(*SCALING, "-k", "single", "-p", "no:terminal", ONLY_WHEN_TWICE_AS_SLOW, "--benchmark-save=partial"),
        variables=STEADY,
    ).exits(0)
    assert ids_in(records_of(storage)["0002_partial.json"]) == [SINGLE]

    right_after = pytest_perf(
        storage,
        *(*SCALING, ONLY_WHEN_TWICE_AS_SLOW, "--require-baseline", "--benchmark-only"),
        *(f"--benchmark-json={tmp_path / 'run.json'}", f"--benchmark-histogram={tmp_path / 'steps'}"),
        *("--benchmark-compare", "--benchmark-group-by=param:world", "--benchmark-columns=median,stddev"),
        variables=STEADY,
    ).exits(0)
    verdicts = verdicts_in(json.loads((tmp_path / "run.json").read_text()))
    history = {test: verdict["history"] for test, verdict in verdicts.items()}
    assert history == {SINGLE: 2, ONE_RANK: 1, TWO_RANKS: 1, AT_BEST: 1}
    assert {verdict["word"] for verdict in verdicts.values()} <= {"ok", "unclear"}
    assert "no baseline" not in right_after.output
    assert len(records_of(storage)) == 2
    # pytest-benchmark's own table, against the latest record, and its charts.
    assert re.search(r"benchmark 'world=1cpu': 3 tests", right_after.output)
    assert re.search(r"benchmark 'world=2cpu': 2 tests", right_after.output)
    assert re.search(r"Name \(time in ms\) +Median +StdDev *$", right_after.output, re.MULTILINE)
    assert re.search(r"test_scaling\[steady-1cpu-single\] \(\S*0002_partial\)", right_after.output)
    assert [chart.name for chart in sorted(tmp_path.glob("*.svg"))] == ["steps-world=1cpu.svg", "steps-world=2cpu.svg"]


@pytest.mark.parametrize("save", ["--benchmark-save=first", "--benchmark-autosave"])
def test_a_storage_that_takes_no_file_ends_the_run_before_it_measures(tmp_path: Path, save: str) -> None:
    (tmp_path / "file").touch()
    outcome = pytest_perf(tmp_path / "file" / "baselines", *SCALING, save).exits(pytest.ExitCode.USAGE_ERROR)
    where = f"--benchmark-storage {tmp_path / 'file' / 'baselines'}"
    assert outcome.errors.strip() == f"ERROR: {where}: cannot write there: Not a directory"


# Judging


@pytest.fixture(scope="module")
def slow(first: tuple[Outcome, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run five times slower than the first record, with a new test, saved; its folder."""
    folder = tmp_path_factory.mktemp("slow")
    shutil.copytree(first[1], folder / "baselines")
    edit(folder / "baselines", forget_canaries)
    outcome = pytest_perf(
        folder / "baselines",
        *(*SCALING, BF16, "-k", "single or bf16", ONLY_WHEN_TWICE_AS_SLOW, "--benchmark-save=slow"),
        *(f"--junitxml={folder / 'junit.xml'}", f"--benchmark-json={folder / 'run.json'}"),
        variables=FIVE_TIMES_SLOWER,
    )
    return outcome, folder


def test_a_slower_test_fails_with_two_lines_and_no_traceback(slow: tuple[Outcome, Path]) -> None:
    outcome, folder = slow
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    suite = known(ElementTree.parse(folder / "junit.xml").find("testsuite"))
    assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("1", "0", "2")
    (failure,) = suite.iter("failure")
    reason = r"slower by \d+\.\d % \(threshold 100\.0 %\): [\d.]+ ms a step, [\d.]+ ms in 1 record"
    assert re.fullmatch(reason + r"\n\+\d+ ms a step\b.*", failure.text or "")  # the second line has the reason
    assert f"\n{failure.text}\n" in outcome.output
    assert f"FAILED {SINGLE} - slower by" in outcome.output
    assert "Traceback" not in outcome.output + outcome.errors
    assert re.search(r"^\[1/2\] test_scaling\[\S+-single\] .* ms/step  seems \d", outcome.output, re.MULTILINE)


def test_a_slower_test_is_in_the_json_with_its_reason_but_is_not_saved(slow: tuple[Outcome, Path]) -> None:
    outcome, folder = slow
    verdicts = verdicts_in(json.loads((folder / "run.json").read_text()))
    assert {test: verdict["word"] for test, verdict in verdicts.items()} == {SINGLE: "slower", BF16: "no baseline"}
    assert verdicts[SINGLE]["change_percent"] > verdicts[SINGLE]["threshold_percent"] == pytest.approx(100)
    assert verdicts[SINGLE]["p_value"] < 0.01
    assert "1 of 2 tests failed and were not saved in the baseline" in outcome.output
    assert {name: ids_in(record) for name, record in records_of(folder / "baselines").items()} == {
        "0001_first.json": [SINGLE, ONE_RANK, TWO_RANKS, AT_BEST],
        "0002_slow.json": [BF16],
    }
    record = json.loads((folder / "run.json").read_text())
    assert (record["failed"], record["interrupted"]) == ({SINGLE: verdicts[SINGLE]["reason"]}, False)


def test_junit_has_the_numbers_of_each_test_also_of_one_that_failed(slow: tuple[Outcome, Path]) -> None:
    numbers = properties(slow[1] / "junit.xml")
    verdicts = verdicts_in(json.loads((slow[1] / "run.json").read_text()))
    failed, new = numbers["test_scaling[steady-1cpu-single]"], numbers["test_throughput[steady-2cpu-bf16]"]
    assert (failed["verdict"], new["verdict"]) == ("slower", "no baseline")
    assert float(failed["change_percent"]) == verdicts[SINGLE]["change_percent"]
    assert float(failed["threshold_percent"]) == verdicts[SINGLE]["threshold_percent"]
    assert (failed["history_records"], new["history_records"]) == ("1", "0")
    assert 0 < float(failed["steps_per_s"]) == pytest.approx(1e3 / float(failed["step_ms"]))
    assert float(new["gradient_error"]) > 0
    assert new.keys() | {"change_percent", "threshold_percent", "p_value"} == failed.keys() | {"gradient_error"}


GONE = TWO_RANKS.replace("2cpu-ddp", "2cpu-renamed")
DELETED = "perf/test_deleted.py::test_deleted[steady-1cpu-ddp]"


@pytest.fixture
def storage_with_more(storage: Path) -> Path:
    """The first record with a test that has another name today, and one whose file is not there any more."""

    def rename(record: Record) -> None:
        record["benchmarks"][2]["fullname"] = GONE
        record["benchmarks"].append({**record["benchmarks"][1], "fullname": DELETED})

    edit(storage, rename)
    return storage


def test_required_baselines_fail_a_new_test_and_list_one_that_is_gone(storage_with_more: Path, tmp_path: Path) -> None:
    outcome = pytest_perf(
        storage_with_more,
        *(*SCALING, ONLY_WHEN_TWICE_AS_SLOW, "--require-baseline"),
        *(f"--junitxml={tmp_path / 'junit.xml'}", f"--benchmark-json={tmp_path / 'run.json'}"),
        variables=STEADY,
    ).exits(pytest.ExitCode.TESTS_FAILED)
    assert "1 failed, 3 passed" in outcome.output
    assert f"FAILED {TWO_RANKS} - Failed: no baseline of this instance has this test" in outcome.output
    assert listed(outcome, MISSING) == []
    assert listed(outcome, REMOVED) == [f"{GONE}: no such test any more; last in 0001_first.json"]
    suite = known(ElementTree.parse(tmp_path / "junit.xml").find("testsuite"))
    assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("1", "0", "4")
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["failed"] == {TWO_RANKS: "no baseline of this instance has this test"}
    assert (record["not_run"], record["interrupted"]) == ([GONE], False)


def test_a_run_without_the_option_names_what_is_gone_but_for_a_hook_that_is_not_asked_for(
    storage_with_more: Path,
) -> None:
    outcome = pytest_perf(storage_with_more, *SCALING, "--benchmark-skip").exits(0)
    assert [line.partition(": ")[0] for line in listed(outcome, MISSING)] == [ONE_RANK, SINGLE, AT_BEST]
    assert [line.partition(": ")[0] for line in listed(outcome, REMOVED)] == [GONE]
    edit(storage_with_more, lambda record: record["benchmarks"][2]["extra_info"].update(hook="mine.hooks:int8"))
    assert listed(pytest_perf(storage_with_more, *SCALING, "--benchmark-skip"), REMOVED) == []


def test_a_test_that_is_gone_is_named_until_a_record_is_saved_without_it(storage_with_more: Path) -> None:
    (file,) = storage_with_more.rglob("0001_first.json")
    record = json.loads(file.read_text())
    record["benchmarks"] = [one for one in record["benchmarks"] if one["fullname"] not in (GONE, DELETED)]
    file.with_name("0002_second.json").write_text(json.dumps(record))
    outcome = pytest_perf(storage_with_more, "perf", *SCALING[1:], "--benchmark-only")
    assert listed(outcome, REMOVED) == [f"{DELETED}: no such test any more; last in 0001_first.json"]


def test_a_test_that_is_gone_is_named_whatever_was_saved_of_another_instance(tmp_path: Path) -> None:
    on_gpus = ("perf/test_throughput.py", *SCALING[1:], "-p", "tests.fake_gpus")
    pytest_perf(tmp_path, *on_gpus, "-k=ddp and not default", "--benchmark-save=first", variables=machine())
    (native,) = tmp_path.rglob("0001_first.json")
    shm = native.parents[1] / f"{native.parent.name}-shm" / native.name
    shm.parent.mkdir()
    record = json.loads(native.read_text().replace(f'"{native.parent.name}"', f'"{shm.parent.name}"'))
    gone = "perf/test_throughput.py::test_throughput[steady-4gpu-gone-shm]"
    record["benchmarks"][0]["fullname"] = gone
    record["benchmarks"][0]["extra_info"]["interconnect"] = "shm"
    shm.write_text(json.dumps(record))
    native.with_name("0002_second.json").write_text(native.read_text())
    both = ("--interconnect=shm", "--interconnect=native", "--benchmark-skip")
    outcome = pytest_perf(tmp_path, *on_gpus, *both, variables=machine())
    assert listed(outcome, REMOVED) == [f"{gone}: no such test any more; last in 0001_first.json"]


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (("perf/test_scaling.py",), [GONE]),
        (("perf/test_scaling.py::test_scaling",), []),
        (("perf", "-k", "scaling"), []),
        (("perf/test_scaling.py", f"--deselect={GONE}"), []),
        (("perf/test_scaling.py", "--workload=vit_tiny"), [GONE]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_test_that_is_gone_is_missed_in_whole_runs_only(
    storage_with_more: Path, arguments: tuple[str, ...], gone: list[str]
) -> None:
    outcome = pytest_perf(storage_with_more, *arguments, *SCALING[1:], "--benchmark-skip").exits(0)
    assert [line.partition(": ")[0] for line in listed(outcome, REMOVED)] == gone


@pytest.mark.parametrize("other", ["--workload=vit_tiny", "--instance=rack-7"])
def test_another_workload_or_instance_misses_nothing(storage_with_more: Path, other: str) -> None:
    outcome = pytest_perf(
        storage_with_more, "perf/test_scaling.py", other, "--require-baseline", "--benchmark-skip"
    ).exits(0)
    assert listed(outcome, MISSING) == listed(outcome, REMOVED) == []


def test_a_script_misses_no_transfer(storage: Path) -> None:
    def send(record: Record) -> None:
        record["benchmarks"][2]["fullname"] = "perf/test_collectives.py::test_collectives[2cpu-all_reduce_1mb]"
        record["benchmarks"][2]["extra_info"]["workload"] = "all_reduce"

    edit(storage, send)
    outcome = pytest_perf(storage, "perf", "--script=tests/script/scripts/with_fsdp2.py", "--benchmark-skip").exits(0)
    assert listed(outcome, MISSING) == listed(outcome, REMOVED) == []


def test_a_world_that_this_machine_lost_is_named(storage: Path) -> None:
    lost = TWO_RANKS.replace("2cpu", "8cpu")

    def enlarge(record: Record) -> None:
        record["benchmarks"][2]["fullname"] = lost
        record["benchmarks"][2]["extra_info"]["world"] = "8cpu"

    edit(storage, enlarge)
    outcome = pytest_perf(storage, *SCALING, ONLY_WHEN_TWICE_AS_SLOW, "--require-baseline", variables=STEADY).exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert listed(outcome, MISSING) == [f"{lost}: this machine has no 8cpu now; last in 0001_first.json"]


def test_a_test_of_the_baseline_that_is_skipped_is_named(storage: Path) -> None:
    outcome = pytest_perf(storage, *SCALING, "--benchmark-skip").exits(0)
    why = "skipped: Skipping benchmark (--benchmark-skip active).; last in 0001_first.json"
    assert listed(outcome, MISSING) == [f"{test}: {why}" for test in (ONE_RANK, SINGLE, AT_BEST, TWO_RANKS)]

    required = pytest_perf(storage, *SCALING, "--benchmark-skip", "--require-baseline").exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert "selected, but not measured, which --require-baseline makes a failure:" in required.output
    assert "4 failed, 4 skipped" in required.output
    assert listed(required, MISSING) == listed(outcome, MISSING)


def test_a_bad_file_ends_the_run_before_it_measures(storage: Path) -> None:
    (good,) = storage.glob("*/*.json")
    torn = good.with_name("0002_torn.json")
    torn.write_text(good.read_text()[:1000])
    outcome = pytest_perf(storage, *SCALING).exits(pytest.ExitCode.USAGE_ERROR)
    assert "starting" not in outcome.output
    assert outcome.errors.startswith(
        f"ERROR: bad baseline, nothing was measured; repair or remove:\n{torn}: cannot be read: "
    )


# pytest-benchmark's own ways


def test_skipped_benchmarks_leave_no_record_and_no_crash(tmp_path: Path) -> None:
    elsewhere = "perf/test_gradients_ways.py::test_gradients_ways[fp16-frozen-default-3cpu]"
    outcome = pytest_perf(tmp_path, *SCALING, elsewhere, "--benchmark-skip", "--benchmark-save=nothing").exits(0)
    assert re.search(r"^\[2/5\] test_scaling\[steady-1cpu-ddp\] ", outcome.output, re.MULTILINE)
    assert re.search(r"^perf/test_gradients_ways.py s +\[5/5\]$", outcome.output, re.MULTILINE)
    assert "5 skipped" in outcome.output
    assert "Not saving anything, no benchmarks have been run!" in outcome.errors
    assert list(tmp_path.rglob("*.json")) == []


def test_a_cache_that_cannot_be_written_costs_no_summary(storage: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ("-o", f"cache_dir={tmp_path / 'file' / 'cache'}")
    outcome = forked_pytest(*SCALING, "--benchmark-skip", f"--benchmark-storage={storage}", *cache).exits(0)
    assert "PytestCacheWarning" in outcome.output
    assert len(listed(outcome, MISSING)) == 4


def test_the_command_of_pytest_benchmark_compares_two_records(storage: Path) -> None:
    (record,) = storage.glob("*/*.json")
    shutil.copy(record, record.with_name("0002_second.json"))
    command = (str(Path(sys.executable).with_name("pytest-benchmark")), f"--storage={storage}")
    outcome = run(*command, "compare", "0001", "0002").exits(0)
    for name in ("0001_first", "0002_second"):
        assert re.search(rf"test_scaling\[steady-2cpu-ddp\] \({name}\)", outcome.output)
    assert "3 tests" not in outcome.output  # one table a world
    assert run(*command, "list").output.splitlines() == [str(record), str(record.with_name("0002_second.json"))]
