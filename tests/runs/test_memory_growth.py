"""A test fails when its steps need more memory on GPUs, or keep more, than in its newest record of the same torch."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import QUICK, Outcome
from tests.fake_gpus import machine
from tests.forked import perf as pytest_perf
from tests.saved_records import Record, edit, ids_in, infos, read, records_of

ONE = "perf/test_throughput.py::test_throughput[vit_l_32-4gpu-ddp_default]"
SUITE = ("perf/test_throughput.py", "-k=4gpu and (ddp_default or bf16)", *QUICK, "--launches=2", "--explain=none")


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, *SUITE, "-p", "tests.fake_gpus", *arguments, variables=machine())


def smaller(record: Record) -> None:
    for info in infos(record).values():
        if "steady_memory_bytes" in info:
            info["steady_memory_bytes"] = 30_000_000


def without_the_key(record: Record) -> None:
    assert [info.pop("steady_memory_bytes", 0) > 0 for info in infos(record).values()].count(True) == 1


def of_another_torch(record: Record) -> None:
    smaller(record)
    record["environment"]["torch"] = "1.0"


def slower_too(record: Record) -> None:
    smaller(record)
    for info in infos(record).values():
        info["launch_medians_s"] = [t / 3 for t in info["launch_medians_s"]]


def run(recorded: Path, tmp_path: Path, change: Callable[[Record], None]) -> tuple[Outcome, Record]:
    """A run that saves, against the changed record. And what it wrote."""
    storage = shutil.copytree(recorded, tmp_path / "baselines")
    edit(storage, change)
    outcome = perf(storage, "--benchmark-save=now", f"--benchmark-json={tmp_path / 'now.json'}")
    return outcome, read(tmp_path / "now.json")


def test_growth_fails_the_test_and_is_not_saved(recorded: Path, tmp_path: Path) -> None:
    outcome, now = run(recorded, tmp_path, smaller)
    assert outcome.exit_code == 1, outcome.output
    ((test, reason),) = now["failed"].items()
    assert test == ONE, "and not the test of bf16, whose hook frees at varying times"
    assert reason == (
        "peak memory of a step grew by 233.3 %: 100 MB now, 30 MB in 0001_before.json, with the same torch "
        "(threshold 2 % and 64 MB); free what it keeps or, if that is intended, remove this record (git rm) and save "
        "another one"
    )
    assert f"FAILED {ONE} - Failed: peak memory of a step grew by 233.3 %: 100 MB now, 30 MB in " in outcome.output
    assert ONE not in ids_in(records_of(tmp_path / "baselines")["0002_now.json"])


@pytest.mark.parametrize("change", [without_the_key, of_another_torch, lambda record: None])
def test_older_records_and_those_of_another_torch_fail_nothing(
    recorded: Path, tmp_path: Path, change: Callable[[Record], None]
) -> None:
    outcome, now = run(recorded, tmp_path, change)
    assert (outcome.exit_code, now["failed"]) == (0, {}), outcome.output


def test_steps_that_keep_twice_as_much_fail_the_test(recorded: Path, tmp_path: Path) -> None:
    def kept(number: int) -> Callable[[Record], None]:
        def change(record: Record) -> None:
            for info in infos(record).values():
                info["kept"] = [{"of": "objects", "number": number}]

        return change

    assert run(recorded, tmp_path / "4", kept(4))[0].exit_code == 0
    _, now = run(recorded, tmp_path / "3", kept(3))
    assert now["failed"][ONE] == (
        "each step keeps 6 objects (of them 6 list), and 3 in 0001_before.json, with the same torch and Python; free "
        "what it keeps or, if that is intended, remove this record (git rm) and save another one"
    )


def test_a_slowdown_keeps_its_verdict(recorded: Path, tmp_path: Path) -> None:
    outcome, now = run(recorded, tmp_path, slower_too)
    (verdict,) = (one["extra_info"]["verdict"] for one in now["benchmarks"] if one["fullname"] == ONE)
    assert verdict["word"] == "slower", outcome.output
    for reason in ("Failed: peak memory of a step grew by ", "slower by "):
        assert f"FAILED {ONE} - {reason}" in outcome.output
