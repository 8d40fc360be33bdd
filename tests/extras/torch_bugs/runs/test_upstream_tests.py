"""The tests of known bugs run on request, after all others."""

from pathlib import Path

import pytest

from tests.fake_gpus import machine
from tests.forked import perf

UPSTREAM = "perf/test_gradients_upstream.py"


def collected(*arguments: str, gpus: bool = False) -> list[str]:
    on_gpus = ("-p", "tests.fake_gpus") if gpus else ()
    variables = machine() if gpus else None
    return perf(Path("baselines"), *arguments, *on_gpus, "--collect-only", "-q", variables=variables).test_ids


@pytest.mark.parametrize("chosen", [("perf", "-k=gradients"), ("perf", "-k=powersgd")])
def test_known_bugs_are_left_out(chosen: tuple[str, ...]) -> None:
    tests = collected(*chosen, gpus=True)
    assert tests
    assert [test for test in tests if test.startswith(UPSTREAM)] == []


@pytest.mark.parametrize("chosen", [(UPSTREAM,), ("perf", "-k=gradients_upstream"), ("perf", "-k=powersgd_nan")])
def test_known_bugs_run_where_requested(chosen: tuple[str, ...]) -> None:
    assert f"{UPSTREAM}::test_gradients_upstream[powersgd_nan]" in collected(*chosen)


def test_the_list_of_tests_says_that_they_are_on_request() -> None:
    lines = perf(Path("baselines"), "perf", "perf/test_graphs.py", "-v", "--collect-only").unwrapped
    assert f" on request: {UPSTREAM} (58 tests) " in lines


def test_known_bugs_come_after_training() -> None:
    tests = collected("perf", UPSTREAM, "-k=not test_collectives", gpus=True)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    assert files[-2:] == ["perf/test_training.py", UPSTREAM]
