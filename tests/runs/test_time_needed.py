"""The expected duration of a run and of the next command, and where the time left stands while it goes on."""

import json
import re
from pathlib import Path

import pytest

from tests.command_line import QUICK
from tests.forked import perf
from tests.forked import pytest as forked_pytest

FILE = "perf/test_scaling.py"
STEADY = ("--workload=tests.workloads_for_tests:steady", *QUICK, "--explain=none")
A_TEST_S = 60.0
WIRE = "perf/test_gradients_wire.py"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of four measured tests, in which they and a test of gradients took long."""
    folder = tmp_path_factory.mktemp("storage")
    perf(folder, FILE, *STEADY, "--benchmark-save=first").exits(0)
    (file,) = folder.rglob("*.json")
    record = json.loads(file.read_text())
    assert record["tests_s"].keys() == {f"{FILE}::test_scaling"}
    record["tests_s"] = {f"{FILE}::test_scaling": A_TEST_S, f"{WIRE}::test_gradients_wire": 600}
    file.write_text(json.dumps(record))
    return folder


def test_a_first_run_has_no_estimate_before_tests_have_ended(tmp_path: Path) -> None:
    output = perf(tmp_path, FILE, *STEADY).output
    assert "takes about" not in output
    first, *_, last = re.findall(r"^\[\d/4\] .*$", output, re.MULTILINE)
    assert first.endswith(" s left")
    assert "left" not in last


@pytest.mark.parametrize(
    ("arguments", "time"),
    [
        ((FILE,), "4 min"),
        ((FILE, "-k=ddp"), "2 min"),
        ((FILE, f"{WIRE}::test_gradients_wire[2cpu-bf16]"), "14 min"),
    ],
)
def test_with_a_record_a_run_takes_as_long_as_the_record_says(
    storage: Path, arguments: tuple[str, ...], time: str
) -> None:
    assert f"\ntakes about {time}, by earlier records\n" in perf(storage, *STEADY, *arguments).output


def test_a_search_and_an_ab_test_say_nothing_of_it(tmp_path: Path) -> None:
    assert "\ntakes about" not in perf(tmp_path, FILE, *STEADY, "--against-env=NOTHING=1").output


def test_the_same_command_again_takes_as_long_as_this_run(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\n\ndef pytest_runtest_setup():\n    time.sleep(1)\n")
    waits = ("-p", "waits")
    output = perf(tmp_path, FILE, *STEADY, *waits, variables={"PYTHONPATH": str(tmp_path)}).unwrapped
    (seconds,) = re.findall(r"record a baseline \(about (\d+) s\)", output)
    assert int(seconds) >= 5  # four tests that wait, although no test measures that long


# The time left, from tests that have ended, and where it stands while a run goes on


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
    outcome = forked_pytest(*own, *arguments, str(folder / "test_dots.py"), variables=variables).exits(0)
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
