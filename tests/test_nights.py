"""The drift command over records in files: what it reads, what it says, and its exit codes."""

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.judge.nights import around_records, read_nights
from fixtures.judge.records import SCHEMA
from tests.command_line import Outcome, run

HERE = "8x-nvidia-h200-nv18"
DDP = "perf/test_throughput.py::test_throughput[vit_l_32-8gpu-ddp]"
BF16 = "perf/test_throughput.py::test_throughput[vit_l_32-8gpu-bf16]"
START = datetime(2026, 9, 1, 3, 0, tzinfo=UTC)

# Any: records are JSON.
Record = dict[str, Any]


def benchmark(test: str, step_s: float, **info: object) -> Record:
    known = {"workload": "vit_l_32", "instance": HERE, "interconnect": "native", "launch_medians_s": [step_s] * 3}
    return {"fullname": test, "extra_info": {**known, "steps_per_s": 1 / step_s, "transport": {"P2P": 16}, **info}}


def night(number: int, *benchmarks: Record, **environment: object) -> Record:
    known = {"torch": "2.14.0", "driver": "580.1", "host": "gpu-3", "clocks": [number], "variables": {}}
    return {
        "schema": SCHEMA,
        "finished": (START + timedelta(days=number)).isoformat(),
        "environment": {**known, **environment},
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "benchmarks": list(benchmarks),
    }


def write(folder: Path, number: int, record: object) -> Path:
    folder.mkdir(exist_ok=True)
    # In no order of names: it is the date that counts.
    file = folder / f"{(number * 37) % 101:03}.json"
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file


def drift(*arguments: str | Path, variables: dict[str, str] | None = None) -> Outcome:
    return run(sys.executable, "-m", "fixtures", "drift", *map(str, arguments), variables=variables)


@pytest.fixture(scope="module")
def forty_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From night 25 on DDP is 5 % slower, with another torch and transport; BF16 stays; a night's noise is 0.5 %."""
    folder = tmp_path_factory.mktemp("nightly")
    random = np.random.default_rng(4)
    for number in range(40):
        after = number >= 25
        ddp = 0.1 * (1.05 if after else 1) * math.exp(random.normal(0, 0.005))
        transport = {"SHM": 16} if after else {"P2P": 16}
        tests = [benchmark(DDP, ddp, transport=transport), benchmark(BF16, 0.08 * math.exp(random.normal(0, 0.005)))]
        write(folder, number, night(number, *tests, torch="2.15.0" if after else "2.14.0"))
    return folder


@pytest.fixture(scope="module")
def looked_at(forty_nights: Path) -> Outcome:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    return drift(forty_nights)


def test_a_step_has_its_night_size_and_what_was_another_then(looked_at: Outcome, forty_nights: Path) -> None:
    assert looked_at.exit_code == 1, looked_at.errors
    headline, _, step, *lines = looked_at.output.splitlines()
    assert headline == f"{HERE}: 40 nights, 2026-09-01 to 2026-10-10"
    assert step == f"a step, first seen 2026-09-26 03:00, in {forty_nights / f'{25 * 37 % 101:03}.json'}"
    assert lines[:2] == [
        "    2026-09-26: transport was P2P on 16 of 16 channels, is SHM on 16 of 16 channels",
        "    2026-09-26: torch 2.14.0 -> 2.15.0",
    ]
    (row,) = (line for line in lines if line.startswith("test_throughput["))
    test, percent, low, high, before, after, p, *when = row.split()
    assert test == "test_throughput[vit_l_32-8gpu-ddp]"
    assert 4 < float(low) < float(percent) < float(high) < 6
    assert float(before) == pytest.approx(10, rel=0.01)
    assert float(after) == pytest.approx(10 / 1.05, rel=0.01)
    assert float(p) <= 0.01
    assert when == ["2026-09-26"]
    assert lines[-1] == "1 of 2 tests without a change"


def test_nothing_found_is_exit_code_zero(forty_nights: Path) -> None:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    before = [forty_nights / f"{number * 37 % 101:03}.json" for number in range(25)]
    outcome = drift(*before)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    assert outcome.output.splitlines()[-1] == "2 of 2 tests without a change"


def test_a_slow_drift_is_named_so(tmp_path: Path) -> None:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    random = np.random.default_rng(6)
    for number in range(40):
        write(tmp_path, number, night(number, benchmark(DDP, 0.1 * math.exp(0.001 * number + random.normal(0, 0.003)))))
    outcome = drift(tmp_path)
    assert outcome.exit_code == 1
    assert "slow drift\n    no difference in software, driver, host or transport was recorded then\n" in outcome.output
    assert "2026-09-01 to 2026-10-10" in outcome.output.splitlines()[-3]


def test_correlated_nights_have_it_beside_p(tmp_path: Path) -> None:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    for number in range(40):
        slow_and_fast_weeks = 0.01 * math.sin(number / 3) + (0.05 if number >= 20 else 0)
        write(tmp_path, number, night(number, benchmark(DDP, 0.1 * math.exp(slow_and_fast_weeks))))
    outcome = drift(tmp_path)
    assert re.search(r" 0\.\d{4} \(r 0\.\d\d\) +2026-09-", outcome.output), outcome.output
    assert outcome.output.count("p is for independent nights, and too small there\n") == 1


def test_few_nights_are_not_called_unchanged(tmp_path: Path) -> None:
    """Though in the last two the step takes half as long again: 10 nights are needed at the default of 1 %."""
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    for number in range(4):
        step_s = 0.15 if number >= 2 else 0.1
        write(tmp_path, number, night(number, benchmark(DDP, step_s), benchmark(BF16, step_s)))
    outcome = drift(tmp_path)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    assert outcome.output.splitlines()[2:] == ["0 of 2 tests without a change", "2 tests with too few nights (< 10)"]


def test_a_test_that_is_renamed_ends_and_begins(tmp_path: Path) -> None:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    random, renamed = np.random.default_rng(7), DDP.replace("ddp", "naive")
    for number in range(20):
        ddp, bf16 = 0.1 * np.exp(random.normal(0, 0.005, 2))
        write(tmp_path, number, night(number, benchmark(DDP if number < 9 else renamed, ddp), benchmark(BF16, bf16)))
    assert drift(tmp_path).output.splitlines()[2:] == [
        "2 of 3 tests without a change",
        "1 test with too few nights (< 10)",
        "first measured 2026-09-10:",
        "    test_throughput[vit_l_32-8gpu-naive]",
        "last measured 2026-09-09:",
        "    test_throughput[vit_l_32-8gpu-ddp]",
    ]


def test_files_that_are_no_records_are_named_and_left_out(tmp_path: Path, forty_nights: Path) -> None:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    torn = write(tmp_path, 1, '{"benchmarks": [')
    undated = write(tmp_path, 2, {**night(2, benchmark(DDP, 0.1)), "finished": None})
    outcome = drift(tmp_path, forty_nights)
    assert outcome.exit_code == 1
    errors = outcome.errors.splitlines()
    assert any(line.startswith(f"left out: {torn}: cannot be read: ") for line in errors)
    assert f"left out: {undated}: does not say when it was finished, but None" in errors
    assert len(errors) == 2


def test_a_folder_without_records_and_a_path_that_is_not_there_are_wrong_usage(tmp_path: Path) -> None:
    empty, missing = drift(tmp_path), drift(tmp_path / "nowhere")
    assert (empty.exit_code, missing.exit_code) == (2, 2)
    assert empty.errors == "there are no records of ddp-perf\n"
    assert missing.errors == f"there is no {tmp_path / 'nowhere'}\n"


def test_without_the_library_it_says_what_to_install(tmp_path: Path, forty_nights: Path) -> None:
    (tmp_path / "ruptures.py").write_text("raise ModuleNotFoundError('No module named ruptures', name='ruptures')")
    outcome = drift(forty_nights, variables={"PYTHONPATH": str(tmp_path)})
    assert outcome.exit_code == 2
    assert "needs ruptures, which is not installed: pip install -e '.[drift]'" in outcome.errors


# Reading


def test_nights_are_in_the_order_of_their_dates(forty_nights: Path) -> None:
    tests, left_out = read_nights([forty_nights])
    days = [night.finished.toordinal() for night in tests[HERE][DDP]]
    assert days == list(range(days[0], days[0] + 40))
    assert left_out == []


def test_a_night_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    """In the nightly folder and, promoted, among the baselines."""
    for number in (1, 2):
        write(tmp_path / str(number), 1, night(1, benchmark(DDP, 0.1)))
    (nights,) = read_nights([tmp_path])[0][HERE].values()
    assert len(nights) == 1


def test_instances_are_apart(tmp_path: Path) -> None:
    write(tmp_path, 1, night(1, benchmark(DDP, 0.1), benchmark(BF16, 0.3, instance=f"{HERE}-shm", interconnect="shm")))
    tests, _ = read_nights([tmp_path])
    assert {instance: list(of_it) for instance, of_it in tests.items()} == {HERE: [DDP], f"{HERE}-shm": [BF16]}


def test_a_record_of_other_suites_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, 1, night(1, {"fullname": "test_sort", "extra_info": {}}))
    assert read_nights([tmp_path]) == ({}, [f"{file}: has no benchmarks of ddp-perf"])


def test_around_two_records_are_their_commits_software_and_machine() -> None:
    before = night(1, topology={"links": "28 x NV18", "matrix": [["X"]]}, variables={"NCCL_ALGO": "Ring"})
    after = night(2, torch="2.15.0", topology={"links": "28 x PIX", "matrix": [["Y"]]})
    after["commit_info"] = {"id": "fedcba9876543210", "dirty": True}
    assert around_records(before, after) == [
        "commit 0123456789 -> fedcba9876 with changes",
        "torch 2.14.0 -> 2.15.0",
        "links between GPUs 28 x NV18 -> 28 x PIX",
        "NCCL_ALGO Ring -> unset",
    ]
    assert around_records(before, before) == []
    assert around_records({}, after) == []
