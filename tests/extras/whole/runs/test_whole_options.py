"""The option ``--whole``, and which tests it collects."""

import pytest

from tests.forked import pytest as forked_pytest

SCRIPT = "--script=tests/extras/loss/learnable.py"


def collected(*arguments: str) -> list[str]:
    return forked_pytest("-p", "no:cacheprovider", "perf", "--collect-only", "-q", *arguments).test_ids


def test_a_script_is_watched_once_in_the_largest_world_after_all_that_is_measured() -> None:
    assert [test for test in collected(SCRIPT) if "whole" in test] == []
    found = collected(SCRIPT, "--whole")
    assert [test.rpartition("-2cpu-")[2] for test in found if "test_whole" in test] == ["as_written]"]
    assert "test_whole" in found[-1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--whole",), "--whole is for a script: add --script"),
        (("--whole", SCRIPT, "--quick"), "--whole runs a script for minutes, and --quick measures briefly"),
    ],
)
def test_a_command_line_that_watches_nothing_is_refused(given: tuple[str, ...], said: str) -> None:
    assert said in forked_pytest("perf", *given).exits(pytest.ExitCode.USAGE_ERROR).errors
