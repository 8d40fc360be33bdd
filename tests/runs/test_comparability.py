"""What a run compares with its records, and what it keeps for others to read."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from fixtures.stats.stopping_rule import is_precise_enough
from fixtures.trace.foreign_files import strict_json
from tests.command_line import QUICK, Outcome
from tests.fake_gpus import machine
from tests.forked import perf as pytest_perf
from tests.saved_records import Record, edit, ids_in, infos, read, records_of

ASKED = ("perf/test_scaling.py", *QUICK, "--instance=here")
STEADY, OF_512 = (f"--workload=tests.workloads_for_tests:{name}" for name in ("steady", "steady_512"))
SAID = (
    "the records have another workload under this name: batch 512 in the records, 2 now; "
    "rename it, remove these records, or save with another --benchmark-storage"
)


@pytest.fixture(scope="module")
def of_512(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of three tests with batch 512."""
    storage = tmp_path_factory.mktemp("recorded") / "baselines"
    pytest_perf(storage, *ASKED, OF_512, "--benchmark-save=of_512").exits(0)
    return storage


@pytest.fixture
def storage(of_512: Path, tmp_path: Path) -> Path:
    shutil.copytree(of_512, tmp_path / "baselines")
    return tmp_path / "baselines"


def test_a_batch_that_changed_under_one_name_is_no_baseline_and_said_once(storage: Path, tmp_path: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, STEADY, f"--benchmark-json={tmp_path / 'run.json'}").exits(0)
    assert outcome.unwrapped.count(f"steady: 4 of 4 tests not compared on here: {SAID}") == 1
    assert outcome.output.count("another workload") == 1
    assert "had no baseline" not in outcome.output  # a record would be refused
    verdicts = [info["verdict"] for info in infos(read(tmp_path / "run.json")).values()]
    assert [(verdict["word"], verdict["reason"]) for verdict in verdicts] == [("no baseline", SAID)] * 4


def test_another_machine_under_the_same_name_is_reported_once_and_in_the_json(storage: Path, tmp_path: Path) -> None:
    edit(storage, lambda record: record["environment"].update(cpu="another CPU", cores=4096.0))
    outcome = pytest_perf(
        storage, *ASKED, OF_512, "--min-slowdown=100", f"--benchmark-json={tmp_path / 'run.json'}"
    ).exits(0)
    assert outcome.unwrapped.count("another machine under the same name here: CPU ") == 1
    assert ", in the records another CPU; cores per rank " in outcome.unwrapped
    assert "record baselines of its own with --instance NAME" in outcome.unwrapped
    for info in infos(read(tmp_path / "run.json")).values():
        assert info["verdict"]["word"] == "ok"
        assert [difference.partition(" ")[0] for difference in info["other_machine"]] == ["CPU", "cores"]


def test_fewer_launches_steps_and_warm_up_than_in_the_records_are_reported(storage: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, OF_512, "--steps=8", "--min-slowdown=100").exits(0)
    said = (
        "this run has 1 launch of up to 8 steps, warm-up 4; the newest record of 4 of 4 tests on here has "
        "1 launch of up to 3 steps, warm-up 4"
    )
    assert said in outcome.unwrapped


# A test fails when its steps need more memory on GPUs, or keep more, than in its newest record of the same
# torch


ONE = "perf/test_throughput.py::test_throughput[vit_l_32-4gpu-ddp_default]"
SUITE = ("perf/test_throughput.py", "-k=4gpu and (ddp_default or bf16)", *QUICK, "--launches=2", "--explain=none")


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, *SUITE, "-p", "tests.fake_gpus", *arguments, variables=machine())


def smaller(record: Record) -> None:
    for info in infos(record).values():
        if "steady_memory_bytes" in info:
            info["steady_memory_bytes"] = 30_000_000


def slower_too(record: Record) -> None:
    smaller(record)
    for info in infos(record).values():
        info["launch_medians_s"] = [t / 3 for t in info["launch_medians_s"]]


def run_on_gpus(recorded: Path, tmp_path: Path, change: Callable[[Record], None]) -> tuple[Outcome, Record]:
    """A run that saves, against the changed record. And what it wrote."""
    storage = shutil.copytree(recorded, tmp_path / "baselines")
    edit(storage, change)
    outcome = perf(storage, "--benchmark-save=now", f"--benchmark-json={tmp_path / 'now.json'}")
    return outcome, read(tmp_path / "now.json")


def test_growth_fails_the_test_and_is_not_saved(recorded: Path, tmp_path: Path) -> None:
    outcome, now = run_on_gpus(recorded, tmp_path, smaller)
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


def test_steps_that_keep_twice_as_much_fail_the_test(recorded: Path, tmp_path: Path) -> None:
    def kept(number: int) -> Callable[[Record], None]:
        def change(record: Record) -> None:
            for info in infos(record).values():
                info["kept"] = [{"of": "objects", "number": number}]

        return change

    assert run_on_gpus(recorded, tmp_path / "4", kept(4))[0].exit_code == 0
    _, now = run_on_gpus(recorded, tmp_path / "3", kept(3))
    assert now["failed"][ONE] == (
        "each step keeps 6 objects (of them 6 list), and 3 in 0001_before.json, with the same torch and Python; free "
        "what it keeps or, if that is intended, remove this record (git rm) and save another one"
    )


def test_a_slowdown_keeps_its_verdict(recorded: Path, tmp_path: Path) -> None:
    outcome, now = run_on_gpus(recorded, tmp_path, slower_too)
    (verdict,) = (one["extra_info"]["verdict"] for one in now["benchmarks"] if one["fullname"] == ONE)
    assert verdict["word"] == "slower", outcome.output
    for reason in ("Failed: peak memory of a step grew by ", "slower by "):
        assert f"FAILED {ONE} - {reason}" in outcome.output


# A record keeps what replays the stopping rule; that live ranks follow it is shown by
# tests/ranks/test_window.py


def test_a_record_replays_the_rule_launch_by_launch(tmp_path: Path) -> None:
    pytest_perf(
        tmp_path / "baselines",
        *("perf/test_scaling.py", "-k", "2cpu", "--launches=2", "--steps=20", "--warmup=6", "--explain=none"),
        *("--workload=tests.workloads_for_tests:steady", "--workload=tests.workloads_for_tests:restless"),
        f"--benchmark-json={tmp_path / 'run.json'}",
    ).exits(0)
    steps_of_launches = {}
    for benchmark in json.loads((tmp_path / "run.json").read_text())["benchmarks"]:
        info, left = benchmark["extra_info"], benchmark["stats"]["data"]
        steps_of_launches[info["workload"]] = info["launch_steps"]
        for steps, launch_median_s in zip(info["launch_steps"], info["launch_medians_s"], strict=True):
            launch, left = left[:steps], left[steps:]
            looks = [number for number in (8, 16) if is_precise_enough(launch[:number], 0.25) and number <= steps]
            assert steps == min([*looks, 20])
            assert launch_median_s == median(launch)
        assert left == []
    assert steps_of_launches == {"steady": [8, 8], "restless": [20, 20]}


# ``--benchmark-json`` as github-action-benchmark (``tool: pytest``) and Bencher (``python_pytest``) read it


def check(record: Any) -> None:
    assert isinstance(record["machine_info"], dict)
    assert isinstance(record["commit_info"], dict)
    names = [one["fullname"] for one in record["benchmarks"]]
    assert len(names) == len(set(names)) > 0
    assert all(0 < len(name) <= 1024 and name == name.strip() for name in names)
    for one in record["benchmarks"]:
        numbers = [one["stats"][key] for key in ("ops", "stddev", "mean", "rounds", "median", "iqr")]
        assert all(type(number) in (int, float) and math.isfinite(number) and number >= 0 for number in numbers)
        assert one["stats"]["ops"] == pytest.approx(1 / one["stats"]["mean"])


def test_other_tools_read_a_run(tmp_path: Path) -> None:
    file = tmp_path / "nightly.json"
    asked = ("perf", "-k", "4gpu and (throughput or collectives)", f"--benchmark-json={file}")
    pytest_perf(tmp_path / "baselines", *asked, "-p", "tests.fake_gpus", variables=machine()).exits(0)
    check(strict_json(file.read_bytes()))
