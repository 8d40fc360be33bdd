"""Since which record a test fails without a break."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.records.history import failing_since, read_stored
from fixtures.stats.decision import run_test_id
from tests.nightly_records import BF16, DDP, HERE, benchmark, night, write

SLOWER = {"verdict": {"word": "slower"}}
ELSEWHERE = "2x-nvidia-h100-nv18"
END = datetime.max.replace(tzinfo=UTC)


def found(folder: Path) -> dict[tuple[str, str], tuple[int, int]]:
    """Instance and test -> day of September of the first record, number of nights."""
    since = re.compile(r"failing since record \d+ of 2026-09-(\d+), commit \w+, (\d+) nights?")
    failing = failing_since(read_stored([folder])[0], END)
    return {test: (int(day), int(nights)) for test, said in failing.items() for day, nights in since.findall(said)}


def test_a_night_that_passes_is_a_break(tmp_path: Path) -> None:
    for number, slower in enumerate([True, False, True, True, False]):
        expected = {4: {(HERE, DDP): (3, 2)}, 1: {(HERE, DDP): (1, 1)}, 2: {}}
        if number in expected:
            assert found(tmp_path) == expected[number]
        write(tmp_path, number, night(number, benchmark(DDP, 0.1, **(SLOWER if slower else {})), benchmark(BF16, 0.1)))
    assert found(tmp_path) == {}


def test_a_night_that_did_not_measure_it_and_another_machine_are_no_break(tmp_path: Path) -> None:
    write(tmp_path, 0, night(0, benchmark(DDP, 0.1, **SLOWER)))
    write(tmp_path, 1, night(1, benchmark(BF16, 0.1)))
    write(tmp_path, 2, night(2, benchmark(DDP, 0.1, instance=ELSEWHERE)))
    write(tmp_path, 3, night(3, benchmark(DDP, 0.1, **SLOWER)))
    assert found(tmp_path) == {(HERE, DDP): (1, 2)}


def test_the_whole_run_fails_as_a_test_does(tmp_path: Path) -> None:
    machine = run_test_id("machine", HERE)
    for number in range(3):
        write(tmp_path, number, {**night(number, benchmark(DDP, 0.1)), "failed": {machine: "slower"} if number else {}})
    assert found(tmp_path) == {(HERE, machine): (2, 2)}


@pytest.mark.parametrize(("commit", "says"), [("0123456789ab", ", commit 0123456789"), ("unversioned", "")])
def test_a_record_that_is_there_twice_counts_once(tmp_path: Path, commit: str, says: str) -> None:
    record = {**night(0, benchmark(DDP, 0.1, **SLOWER)), "commit_info": {"id": commit}}
    files = [write(tmp_path / folder, 0, record) for folder in ("nights", "baselines")]
    (said,) = failing_since(read_stored(files)[0], END).values()
    assert said == f"failing since record 000 of 2026-09-01{says}, 1 night"


def test_what_is_no_record_is_left_out_with_the_reason(tmp_path: Path) -> None:
    file = write(tmp_path, 0, "{")
    stored, (reason,) = read_stored([file])
    assert (stored, reason.startswith(f"{file}: ")) == ([], True)
