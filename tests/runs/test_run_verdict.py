"""A run that is slower as a whole: tests that the machine explains, and tests that fail at the end. The record is
edited, the run is real."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fixtures.matrix.transfers import HOST
from tests.command_line import QUICK, Outcome
from tests.fake_gpus import machine
from tests.forked import perf as pytest_perf
from tests.runs.failing_teardown import TEST
from tests.runs.limited_by_host import LAUNCHES_S
from tests.saved_records import Record, edit, read
from tests.workloads_for_tests import STEP_MS

SUITE = ("perf/test_throughput.py", "-k=ddp or static or bucket_view", "--workload=tests.workloads_for_tests:steady")
ONE = "perf/test_throughput.py::test_throughput[steady-2cpu-bucket_view]"


def perf(storage: Path, *arguments: str, **variables: str) -> Outcome:
    """Run five tests."""
    return pytest_perf(storage, *SUITE, *QUICK, "--explain=none", *arguments, variables={STEP_MS: "120", **variables})


def test_a_torn_record_of_another_instance_is_named(recorded: Path, tmp_path: Path) -> None:
    storage = shutil.copytree(recorded, tmp_path / "baselines")
    (storage / "another").mkdir()
    (storage / "another" / "0001_torn.json").write_text("{")
    outcome = perf(storage).exits(0)
    assert "another/0001_torn.json" in outcome.unwrapped
    assert "its instance was left out of this run's thresholds: repair or remove the file" in outcome.unwrapped


def _divided(times: Any, by: float) -> Any:
    """Lists of seconds, or of such lists, divided."""
    return [_divided(time, by) for time in times] if isinstance(times, list) else times / by


def judged_by(
    recorded: Path,
    tmp_path: Path,
    *,
    tests: float,
    canaries: float,
    apart: float = 1,
    only: Callable[[str], bool] = lambda name: True,
    torch: str | None = None,
    arguments: tuple[str, ...] = (),
    variables: dict[str, str] | None = None,
) -> tuple[Outcome, Record]:
    """A run now against a record in which these tests and canaries took less by these factors, made with ``torch``. The
    launches of each test differ by the factor ``apart`` to either side, which raises its threshold and no other. And
    what it wrote."""

    def change(record: Record) -> None:
        for info in (one["extra_info"] for one in record["benchmarks"] if only(one["fullname"])):
            times_s = [time_s / tests for time_s in info["launch_medians_s"]]
            info["launch_medians_s"] = [time_s * factor for time_s in times_s for factor in (1 / apart, apart)]
        for took in record["canaries"]["native"]["canaries"].values():
            took.update({look: _divided(times, canaries) for look, times in took.items()})
        if torch is not None:
            record["environment"]["torch"] = torch

    storage = shutil.copytree(recorded, tmp_path / "baselines")
    edit(storage, change)
    outcome = perf(storage, f"--benchmark-json={tmp_path / 'now.json'}", *arguments, **(variables or {}))
    return outcome, read(tmp_path / "now.json")


def words(record: Record) -> set[str]:
    return {benchmark["extra_info"]["verdict"]["word"] for benchmark in record["benchmarks"]}


def test_a_machine_that_changed_is_reported_once_and_no_test_fails(recorded: Path, tmp_path: Path) -> None:
    outcome, now = judged_by(recorded, tmp_path, tests=3, canaries=50)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.output.count("the machine changed: ") == 1
    assert words(now) == {"unclear"}
    assert "; no slowdown up to 100 % would have been found" in outcome.unwrapped


def test_all_slower_with_flat_canaries_is_red_though_no_test_is(recorded: Path, tmp_path: Path) -> None:
    outcome, now = judged_by(recorded, tmp_path, tests=3, canaries=1 / 50, apart=1.1, torch="1.0")
    (instance,) = now["common_shift"]
    assert outcome.exit_code == 1, outcome.output
    assert words(now) == {"unclear"}
    ((failed, reason),) = now["failed"].items()
    assert failed == f"perf::common_shift[{instance}]"
    assert reason.startswith("all 5 tests are slower, by about ")
    assert "no canary is slower: " in reason
    assert f"FAILED perf::common_shift[{instance}]" in outcome.output
    assert "; in no record: torch " in outcome.unwrapped


def test_a_slower_test_is_reported_at_the_end_also_if_its_teardown_failed(recorded: Path, tmp_path: Path) -> None:
    """Its own reports were passed on before it was decided."""
    arguments = ("-p", "tests.runs.failing_teardown", f"--junitxml={tmp_path / 'junit.xml'}")
    outcome, now = judged_by(
        *(recorded, tmp_path),
        tests=3,
        canaries=50,
        only=lambda name: name == ONE,
        arguments=arguments,
        variables={TEST: ONE},
    )
    assert outcome.exit_code == 1, outcome.output
    assert list(now["failed"]) == [ONE]
    (verdict,) = (one["extra_info"]["verdict"] for one in now["benchmarks"] if one["fullname"] == ONE)
    assert verdict["word"] == "slower"
    assert "; canaries are slower as well: " in verdict["reason"]
    assert f"FAILED {ONE} - slower by " in outcome.output
    assert f"ERROR {ONE} - RuntimeError: nothing can be torn down here" in outcome.output
    assert "1 failed, 5 passed" in outcome.output
    suite = ElementTree.parse(tmp_path / "junit.xml")
    assert [failure.text for failure in suite.iter("failure") if "slower by " in (failure.text or "")]
    assert [error for error in suite.iter("error") if "nothing can be torn down here" in (error.text or "")]


FEW = ("-k", "bucket_view and not static")


def test_a_test_of_few_that_is_slower_as_canaries_are_is_unclear(recorded: Path, tmp_path: Path) -> None:
    outcome, now = judged_by(recorded, tmp_path, tests=3, canaries=50, arguments=FEW)
    assert outcome.exit_code == 0, outcome.output
    assert words(now) == {"unclear"}
    assert f"{ONE} is unclear: slower by " in outcome.unwrapped
    assert re.search(rf"^next: repeat the slower tests .*: .* '{re.escape(ONE)}' ", outcome.output, re.M)


def test_a_run_that_could_find_little_fails_by_sensitivity_alone(recorded: Path, tmp_path: Path) -> None:
    """A slowdown of 35 % among launches that lie far apart: without the option the night is green."""
    outcome, now = judged_by(recorded, tmp_path, tests=1.35, canaries=1, apart=1.5, arguments=("--sensitivity=10",))
    assert outcome.exit_code == 1, outcome.output
    assert words(now) == {"unclear"}
    assert [*now["failed"]] == [f"perf::sensitivity[{now['instance']}]"]
    assert f"FAILED perf::sensitivity[{now['instance']}]" in outcome.output
    assert re.search(r"^next: measure more precisely, on a quiet machine: ", outcome.output, re.M)


def test_a_test_without_a_baseline_fails_once(tmp_path: Path) -> None:
    """By --require-baseline, not by --sensitivity too."""
    arguments = (
        *QUICK,
        "-k",
        "2cpu-bf16 and not powersgd",
        "--require-baseline",
        "--sensitivity=10",
        f"--benchmark-json={tmp_path}/r.json",
    )
    pytest_perf(tmp_path / "baselines", "perf/test_throughput.py", *arguments).exits(1)
    assert [test.rpartition("-")[2] for test in read(tmp_path / "r.json")["failed"]] == ["bf16]"]


GPU_TESTS = ("perf/test_throughput.py", "-k=4gpu and (bf16 or fp16)", *QUICK, "--explain=none", "-p", "tests.fake_gpus")


@pytest.mark.parametrize(("canary", "fails"), [("matrix_product_4096", True), ("host_to_device_copy_64mb", False)])
def test_a_slower_gpu_fails_the_run_and_a_slower_host_does_not(tmp_path: Path, canary: str, fails: bool) -> None:
    storage = tmp_path / "baselines"
    quiet, slower = machine(), machine(slower={canary: 1.5})
    assert pytest_perf(storage, *GPU_TESTS, "--benchmark-save=before", variables=quiet).exit_code == 0
    file = tmp_path / "now.json"
    arguments = (*GPU_TESTS, "--benchmark-save=now", f"--benchmark-json={file}")
    outcome = pytest_perf(storage, *arguments, variables=slower)
    failed = read(file)["failed"]
    assert outcome.exit_code == fails, outcome.output
    assert len([*storage.glob("*/*.json")]) == 2 - fails
    if fails:
        ((test, reason),) = failed.items()
        assert test == "perf::machine[4x-nvidia-h200-nv18]"
        assert reason.startswith(
            "the machine is slower than in its records: matrix_product_4096 is slower by 50.0 % (threshold "
        )
        assert "4.012 ms a repetition, 2.675 ms in 1 record" in reason
        assert "next: find what slows this machine (docs/how-to/slowdown.md), then (" in outcome.output


@pytest.mark.parametrize(("lead_ms", "word"), [(0.1, "unclear"), (100, "slower")])
def test_a_slower_host_excuses_the_test_that_it_limits_and_limited_before(
    recorded: Path, tmp_path: Path, lead_ms: float, word: str
) -> None:
    def change(record: Record) -> None:
        record["canaries"]["native"]["canaries"][HOST] = {"before_s": [LAUNCHES_S / 2], "after_s": [LAUNCHES_S / 2]}
        (one,) = (benchmark["extra_info"] for benchmark in record["benchmarks"] if benchmark["fullname"] == ONE)
        one |= {"launch_medians_s": [t / 1.5 for t in one["launch_medians_s"]], "host_lead_ms": lead_ms}

    storage, now = shutil.copytree(recorded, tmp_path / "baselines"), tmp_path / "now.json"
    edit(storage, change)
    outcome = perf(storage, "-p", "tests.runs.limited_by_host", f"--benchmark-json={now}", "-k=bucket_view")
    found = {benchmark["fullname"]: benchmark["extra_info"]["verdict"] for benchmark in read(now)["benchmarks"]}
    verdict = found.pop(ONE)
    assert verdict["word"] == word, outcome.output
    for said in (f"{HOST} 100.0 % slower", "; the machine explains "):
        assert (said in verdict["reason"]) == (word == "unclear")
    assert {verdict["word"] for verdict in found.values()} == {"ok"}
    assert outcome.exit_code == (word == "slower")
