"""Nights read from records."""

from dataclasses import replace
from pathlib import Path

from fixtures.extras.page.nights import comparable_nights, read_nights
from fixtures.matrix.recorded import json_of
from tests.builders import TRAINED
from tests.nightly_records import BF16, DDP, HERE, benchmark, night, write

# Reading


def test_nights_are_in_the_order_of_their_dates(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, number, night(number, benchmark(DDP, 0.1)))
    days = [night.finished.toordinal() for night in read_nights([tmp_path])[HERE][DDP]]
    assert days == list(range(days[0], days[0] + 40))


def test_a_night_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    """In the nightly folder and, promoted, among the baselines."""
    for number in (1, 2):
        write(tmp_path / str(number), 1, night(1, benchmark(DDP, 0.1)))
    (nights,) = read_nights([tmp_path])[HERE].values()
    assert len(nights) == 1


def test_nights_of_another_workload_under_one_name_are_left_out(tmp_path: Path) -> None:
    for number, batch in enumerate((4, 4, 8), start=1):
        trained = json_of(replace(TRAINED, batch_size=batch))
        write(tmp_path, number, night(number, benchmark(DDP, 0.1, workload_fingerprint=trained)))
    assert [kept.finished.day for kept in comparable_nights(read_nights([tmp_path])[HERE][DDP])] == [4]


def test_instances_are_apart_and_other_suites_left_out(tmp_path: Path) -> None:
    write(tmp_path, 1, night(1, benchmark(DDP, 0.1), benchmark(BF16, 0.3, instance=f"{HERE}-shm", interconnect="shm")))
    tests = read_nights([tmp_path])
    assert {instance: list(of_it) for instance, of_it in tests.items()} == {HERE: [DDP], f"{HERE}-shm": [BF16]}
    write(tmp_path, 1, night(1, {"fullname": "test_sort", "extra_info": {}}))  # the same file
    assert read_nights([tmp_path]) == {}
