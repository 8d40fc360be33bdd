"""``pytest perf --work`` against records, with fake ranks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf as pytest_perf
from tests.saved_records import Record, edit, infos, read

ONE = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp_default]"
SUITE = ("perf/test_throughput.py", "-k=2cpu-ddp_default", *QUICK, "--launches=2")


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, *SUITE, *arguments)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    storage = tmp_path_factory.mktemp("baselines")
    perf(storage, "--benchmark-save=before").exits(0)
    return storage


def compared(recorded: Path, folder: Path, change: Callable[[Record], object], *given: str) -> tuple[Outcome, Record]:
    """A run that compares the work with the changed record. And what it wrote."""
    storage = shutil.copytree(recorded, folder / "baselines")
    edit(storage, change)
    return perf(storage, "--work", f"--benchmark-json={folder / 'now.json'}", *given), read(folder / "now.json")


def of_work(**work: dict[str, int | None]) -> Callable[[Record], None]:
    def change(record: Record) -> None:
        for info in infos(record).values():
            info["work"] |= work

    return change


def test_unchanged_work_passes_and_is_counted(recorded: Path, tmp_path: Path) -> None:
    outcome, now = compared(recorded, tmp_path, lambda record: None)
    assert (outcome.exit_code, now["failed"]) == (0, {}), outcome.output
    assert "1 test compared: 1 with the same work, 0 with other work" in outcome.output


def test_other_work_fails_and_is_named_and_not_saved(recorded: Path, tmp_path: Path) -> None:
    more = of_work(kernels={"add": 2}, collectives={"all_reduce of 1 float32": 1})
    outcome, now = compared(recorded, tmp_path, more, "--benchmark-save=now")
    assert outcome.exit_code == 1, outcome.output
    assert list(now["failed"]) == [ONE]
    reason = now["failed"][ONE]
    assert reason.startswith("the work of a step differs from that in 0001_before.json: -2 x add, ")
    assert "-1 x all_reduce of 1 float32" in reason
    assert reason.endswith("; if that is intended, save a record without --work")
    assert len(list((tmp_path / "baselines").glob("*/*.json"))) == 1


def test_what_varied_in_the_record_is_not_compared_and_said(recorded: Path, tmp_path: Path) -> None:
    outcome, _ = compared(recorded, tmp_path, of_work(kernels={"add": None}), "-v")
    assert outcome.exit_code == 0, outcome.output
    assert "not compared, because steps or ranks differ in it: add" in " ".join(outcome.output.split())


def older(record: Record) -> None:
    for info in infos(record).values():
        del info["work"]


def of_another_torch(record: Record) -> None:
    record["environment"]["torch"] = "1.0"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (older, "no record has the work of a step: save one with --benchmark-save"),
        (of_another_torch, "no record with work has this torch and GPU"),
    ],
)
def test_a_record_that_cannot_be_compared_is_a_line(
    recorded: Path, tmp_path: Path, change: Callable[[Record], object], why: str
) -> None:
    outcome, _ = compared(recorded, tmp_path, change)
    assert outcome.exit_code == 0, outcome.output
    assert "0 tests compared" in outcome.output
    assert f"not compared: {why}: 1 test" in " ".join(outcome.output.split())


@pytest.mark.parametrize("mode", ["none", "failures"])
def test_without_profiles_of_all_tests_it_is_refused(tmp_path: Path, mode: str) -> None:
    outcome = perf(tmp_path, "--work", f"--explain={mode}").exits(pytest.ExitCode.USAGE_ERROR)
    assert f"--work compares profiled launches of all tests: leave out --explain {mode}" in outcome.errors
