"""The drift command over records in files: its input, its output, and its exit codes."""

import math
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import Outcome, command_here, refused
from tests.nightly_records import BF16, DDP, HERE, START, benchmark, night, write, write_forty_nights


def drift(*arguments: str | Path) -> Outcome:
    pytest.importorskip("ruptures", reason="drift needs ruptures, which has no release for this Python")
    return command_here("drift", *arguments)


@pytest.fixture(scope="module")
def forty_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_forty_nights(tmp_path_factory.mktemp("nightly"))


@pytest.fixture(scope="module")
def looked_at(forty_nights: Path) -> Outcome:
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
    test, percent, direction, low, _, high, before, after, p, *when = row.split()
    assert direction == "slower"
    assert test == "test_throughput[vit_l_32-8gpu-ddp]"
    assert 4 < float(low) < float(percent) < float(high) < 6
    assert float(before) == pytest.approx(10, rel=0.01)
    assert float(after) == pytest.approx(10 / 1.05, rel=0.01)
    assert float(p) <= 0.01
    assert when == ["2026-09-26"]
    assert lines[-1] == "1 of 2 tests without a change"


def test_nothing_found_is_exit_code_zero(forty_nights: Path) -> None:
    before = [forty_nights / f"{number * 37 % 101:03}.json" for number in range(25)]
    outcome = drift(*before)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    assert outcome.output.splitlines()[-1] == "2 of 2 tests without a change"


def write_nights(folder: Path, logs: Sequence[float]) -> None:
    for number, log in enumerate(logs):
        write(folder, number, night(number, benchmark(DDP, 0.1 * math.exp(log))))


def test_a_slow_drift_is_named_so(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    write_nights(tmp_path, [0.001 * number + random.normal(0, 0.003) for number in range(40)])
    outcome = drift(tmp_path)
    assert outcome.exit_code == 1
    assert "slow drift\n    no difference in software, driver, host or transport was recorded then\n" in outcome.output
    assert "2026-09-01 to 2026-10-10" in outcome.output


def test_correlated_nights_have_it_next_to_p(tmp_path: Path) -> None:
    write_nights(tmp_path, [0.01 * math.sin(number / 3) + (0.05 if number >= 20 else 0) for number in range(40)])
    outcome = drift(tmp_path)
    assert re.search(r" 0\.\d{4} \(r 0\.\d\d\) +2026-09-", outcome.output), outcome.output
    assert outcome.output.count("p is for independent nights, and too small there\n") == 1


def test_few_nights_are_not_called_unchanged(tmp_path: Path) -> None:
    """Though in the last two the step takes half as long again: 10 nights are needed at the default of 1 %."""
    for number in range(4):
        step_s = 0.15 if number >= 2 else 0.1
        write(tmp_path, number, night(number, benchmark(DDP, step_s), benchmark(BF16, step_s)))
    outcome = drift(tmp_path)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    assert outcome.output.splitlines()[2:] == ["2 tests: too few nights to judge (4, need 10)"]


@pytest.mark.parametrize(
    ("hours", "period", "unit"),
    [
        ([0], "1 night, 2026-09-01", "nights to judge (1,"),
        ([0, 2, 4, 6], "4 records on 1 day, 2026-09-01", "records to judge (4,"),
        ([0, 2, 24], "3 records on 2 days, 2026-09-01 to 2026-09-02", "records to judge (3,"),
    ],
)
def test_records_of_one_day_are_not_called_nights(tmp_path: Path, hours: list[int], period: str, unit: str) -> None:
    for number, hour in enumerate(hours):
        record = night(0, benchmark(DDP, 0.1)) | {"finished": (START + timedelta(hours=hour)).isoformat()}
        write(tmp_path, number, record)
    headline, _, verdict = drift(tmp_path).output.splitlines()
    assert (headline, verdict) == (f"{HERE}: {period}", f"1 test: too few {unit} need 10)")


def test_tests_that_fail_now_are_counted_with_the_record_since_which(tmp_path: Path) -> None:
    for number in range(4):
        word = "slower" if number > 1 else "ok"
        write(tmp_path, number, night(number, benchmark(DDP, 0.1, verdict={"word": word}), benchmark(BF16, 0.1)))
    since = "failing since record 074 of 2026-09-03, commit 0123456789ab, 2 nights"
    assert f"1 failing test, longest {DDP}: {since}" in drift(tmp_path).output


def test_a_test_that_is_renamed_ends_and_begins(tmp_path: Path) -> None:
    random, renamed = np.random.default_rng(7), DDP.replace("ddp", "naive")
    for number in range(20):
        ddp, bf16 = 0.1 * np.exp(random.normal(0, 0.005, 2))
        write(tmp_path, number, night(number, benchmark(DDP if number < 9 else renamed, ddp), benchmark(BF16, bf16)))
    assert drift(tmp_path).output.splitlines()[2:] == [
        "2 of 2 tests without a change",
        "1 test: too few nights to judge (9, need 10)",
        "first measured 2026-09-10:",
        "    test_throughput[vit_l_32-8gpu-naive]",
        "last measured 2026-09-09:",
        "    test_throughput[vit_l_32-8gpu-ddp]",
    ]


def test_files_that_are_no_records_are_named_and_left_out(tmp_path: Path, forty_nights: Path) -> None:
    torn = write(tmp_path, 1, '{"benchmarks": [')
    undated = write(tmp_path, 2, {**night(2, benchmark(DDP, 0.1)), "finished": None})
    outcome = drift(tmp_path, forty_nights)
    assert outcome.exit_code == 1
    errors = outcome.errors.splitlines()
    assert any(line.startswith(f"left out: {torn}: cannot be read: ") for line in errors)
    assert f"left out: {undated}: has no valid time in 'finished': None" in errors
    assert len(errors) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("{empty}",), "no records of ddp-perf found"),
        (("{empty}/nowhere",), "there is no {empty}/nowhere"),
        (("--false-alarms=90", "x.json"), "--false-alarms must be between 0.1 and 50, got 90"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    said = refused("drift", *(argument.format(empty=tmp_path) for argument in arguments))
    assert said.splitlines()[-1].endswith(error.format(empty=tmp_path))


def test_without_the_library_it_says_what_to_install(forty_nights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    assert "needs ruptures, which is not installed: pip install -e '.[drift]'" in refused("drift", forty_nights)
