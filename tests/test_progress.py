"""The time left, from tests that have ended, and where it stands while a run goes on."""

import re
import sys
from pathlib import Path

import pytest

from fixtures.report.progress import TimeLeft
from tests.command_line import run

BUCKETS, SCALING = ("perf/test_buckets.py", True), ("perf/test_scaling.py", True)
GRADIENTS, WIRE = ("perf/test_gradients.py", False), ("perf/test_gradients_wire.py", False)


def test_a_test_takes_as_long_as_those_of_its_file_without_the_one_that_started_ranks() -> None:
    left = TimeLeft([BUCKETS] * 10 + [GRADIENTS] * 1000)
    for took_s in (60.0, 8.0, 10.0):
        left.finish(BUCKETS, took_s)
    for took_s in (20.0, 0.1, 0.3):
        left.finish(GRADIENTS, took_s)
    assert left.seconds() == pytest.approx(7 * 9 + 997 * 0.2)


def test_a_file_that_is_not_begun_takes_as_long_as_those_that_are_measured_like_it_or_are_not() -> None:
    left = TimeLeft([BUCKETS] * 3 + [SCALING] * 5 + [GRADIENTS] * 3 + [WIRE] * 30)
    for kind, took_s in ((BUCKETS, 8), (GRADIENTS, 0.5)):
        for _ in range(3):
            left.finish(kind, took_s)
    assert left.seconds() == pytest.approx(5 * 8 + 30 * 0.5)


def test_tests_of_which_none_has_ended_are_not_left_out() -> None:
    left = TimeLeft([BUCKETS] * 3 + [GRADIENTS] * 1000)
    for _ in range(3):
        left.finish(BUCKETS, 8)
    assert left.seconds() > 60


def test_nothing_left_takes_no_time() -> None:
    left = TimeLeft([BUCKETS])
    left.finish(BUCKETS, 8)
    assert left.seconds() == 0


HUNDRED_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(100))
def test_dot(number):
    pass
"""


def run_of_a_hundred(folder: Path, *arguments: str) -> list[str]:
    """The lines that end in which of a hundred tests it is."""
    (folder / "test_dots.py").write_text(HUNDRED_TESTS)
    own = ("-p", "no:cacheprovider", "-p", "conftest", "-c", "pyproject.toml")
    outcome = run(
        sys.executable, "-m", "pytest", *own, *arguments, str(folder / "test_dots.py"), variables={"COLUMNS": "80"}
    )
    assert outcome.exit_code == 0, outcome.output
    return [line for line in outcome.output.splitlines() if "/100]" in line]


def test_lines_of_dots_end_with_which_of_how_many_and_the_time_left(tmp_path: Path) -> None:
    first, last = run_of_a_hundred(tmp_path)
    found = re.search(r"(\.+) +\[ (\d+)/100\] \d+ s left$", first)
    assert found
    assert len(found[1]) == int(found[2])
    assert re.fullmatch(r"\.+ +\[100/100\]", last)
    assert max(len(first), len(last)) < 80


def test_with_v_each_test_has_it(tmp_path: Path) -> None:
    lines = run_of_a_hundred(tmp_path, "-v")
    numbers = [re.findall(r" PASSED +\[ *(\d+)/100\]( \d+ s left)?$", line) for line in lines]
    assert [int(number) for ((number, _),) in numbers] == list(range(1, 101))
    assert all(left for ((_, left),) in numbers[:-1])


def test_a_run_without_a_terminal_goes_on_without_it(tmp_path: Path) -> None:
    assert run_of_a_hundred(tmp_path, "-p", "no:terminal") == []
