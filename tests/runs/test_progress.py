"""The time left, from tests that have ended, and where it stands while a run goes on."""

import re
from pathlib import Path

from tests.forked import pytest as forked_pytest

HUNDRED_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(100))
def test_dot(number):
    pass
"""


def run_of_a_hundred(folder: Path, *arguments: str, variables: dict[str, str] | None = None) -> list[str]:
    """The lines that end in which of a hundred tests it is."""
    (folder / "test_dots.py").write_text(HUNDRED_TESTS)
    own = ("-p", "no:cacheprovider", "-p", "conftest", "-c", "pyproject.toml")
    variables = {"COLUMNS": "80", **(variables or {})}
    outcome = forked_pytest(*own, *arguments, str(folder / "test_dots.py"), variables=variables)
    assert outcome.exit_code == 0, outcome.output
    return [line for line in outcome.output.splitlines() if "/100]" in line]


def test_lines_of_dots_end_with_which_of_how_many_and_the_time_left(tmp_path: Path) -> None:
    first, *more = run_of_a_hundred(tmp_path)
    found = re.search(r"(\.+) +\[ (\d+)/100\] (?:under |\d+ to )?\d+ (?:min|s) left$", first)
    assert found
    assert len(found[1]) == int(found[2])
    assert re.fullmatch(r"\.+ +\[100/100\]", more[-1])
    assert max(map(len, (first, *more))) < 80


def test_with_v_each_test_has_it(tmp_path: Path) -> None:
    lines = run_of_a_hundred(tmp_path, "-v")
    numbers = [
        re.findall(r" PASSED +\[ *(\d+)/100\]( (?:under |\d+ to )?\d+ (?:min|s) left)?$", line) for line in lines
    ]
    assert [int(number) for ((number, _),) in numbers] == list(range(1, 101))
    assert all(left for ((_, left),) in numbers[:-1])


def test_a_run_without_a_terminal_goes_on_without_it(tmp_path: Path) -> None:
    assert run_of_a_hundred(tmp_path, "-p", "no:terminal") == []
