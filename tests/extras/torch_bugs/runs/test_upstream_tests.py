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


@pytest.mark.parametrize(
    ("chosen", "run"),
    [
        (("perf", "-k=gradients"), False),
        (("perf", "-k=powersgd"), False),
        ((UPSTREAM,), True),
        (("perf", "-k=gradients_upstream"), True),
        (("perf", "-k=powersgd_nan"), True),
    ],
)
def test_known_bugs_run_only_where_requested(chosen: tuple[str, ...], run: bool) -> None:
    tests = collected(*chosen, gpus=not run)
    assert tests
    assert (f"{UPSTREAM}::test_gradients_upstream[powersgd_nan]" in tests) == run
    assert any(test.startswith(UPSTREAM) for test in tests) == run


def test_the_list_of_tests_says_that_they_are_on_request() -> None:
    lines = perf(Path("baselines"), "perf", "perf/test_graphs.py", "-v", "--collect-only").unwrapped
    assert f" on request: {UPSTREAM} (58 tests) " in lines


def test_known_bugs_come_last() -> None:
    tests = collected("perf", UPSTREAM, "-k=not test_collectives", gpus=True)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    assert files[-1] == UPSTREAM
