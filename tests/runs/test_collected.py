"""The tests that a command line collects, and the lines of a run on the tests that it leaves out."""

from pathlib import Path

import pytest

from fixtures.matrix.configs import HOOKS_BY_DEFAULT
from tests.command_line import Outcome
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import pytest as forked_pytest

GRAPHS = "perf/test_graphs.py"
A_GRAPH = f"{GRAPHS}::test_graphs[vit_tiny-2cpu-graph-bucket_25mb]"
NEEDS_A_GPU = "graph-bucket_25mb is a CUDA graph, which needs a GPU"


def listed(*arguments: str, gpus: bool = False) -> Outcome:
    on_gpus = ("-p", "tests.fake_gpus") if gpus else ()
    variables = machine() if gpus else None
    return perf(Path("baselines"), *arguments, *on_gpus, "--collect-only", variables=variables)


def found_in(file: str, *arguments: str, gpus: bool = False) -> list[str]:
    return [test for test in listed(*arguments, "-q", gpus=gpus).test_ids if test.startswith(file)]


def test_every_hook_of_the_default_table_has_its_gradients_tested_by_default() -> None:
    tests = found_in("perf/test_gradients", "perf", gpus=True)
    assert [hook for hook in HOOKS_BY_DEFAULT if not any(f"-{hook}" in test for test in tests)] == []


@pytest.mark.parametrize("chosen", [("perf",), ("perf", "-k=gradients"), ("perf", "-k=powersgd")])
def test_hooks_outside_the_table_are_left_out(chosen: tuple[str, ...]) -> None:
    tests = found_in("perf/test_gradients", *chosen, gpus=True)
    assert tests
    assert [test for test in tests if "int8" in test or "builtin" in test] == []


def test_a_hook_outside_the_table_is_tested_by_its_name_or_by_the_path() -> None:
    file = "perf/test_gradients_wire.py"
    test = f"{file}::test_gradients_wire[2cpu-int8_all_to_all]"
    assert test in found_in(file, "perf", "-k=gradients and int8")
    assert test in found_in(file, file)


def test_the_list_of_tests_says_why_others_are_not_in_it() -> None:
    lines = listed("perf", GRAPHS, "-v").unwrapped
    assert f" not collected: {NEEDS_A_GPU} (2 tests) " in lines
    assert " not collected: other_dtypes does not depend on the number of ranks: it is run on two (14 tests) " in lines


@pytest.mark.parametrize("chosen", [(GRAPHS, "-k=graph-bucket_25mb"), ("perf", "-k=graph-bucket_25mb")])
def test_a_command_line_of_which_nothing_can_run_ends_with_the_reason(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    outcome = perf(tmp_path, *chosen)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    assert outcome.errors.startswith(f"ERROR: nothing to run: {NEEDS_A_GPU} (2 tests)")


@pytest.mark.parametrize("test", [A_GRAPH, f"{GRAPHS}::test_graphs"])
def test_a_test_that_is_named_and_cannot_run_is_skipped_with_the_reason(tmp_path: Path, test: str) -> None:
    outcome = perf(tmp_path, test, "-v")
    assert outcome.exit_code == 0
    assert NEEDS_A_GPU in outcome.unwrapped
    assert " passed" not in outcome.output


def test_after_a_failure_on_request_lf_finds_the_test_again(tmp_path: Path) -> None:
    test = "perf/test_gradients_wire.py::test_gradients_wire[2cpu-allreduce]"
    (tmp_path / "cache/v/cache").mkdir(parents=True)
    (tmp_path / "cache/v/cache/lastfailed").write_text(f'{{"{test}": true}}')
    outcome = forked_pytest("perf", "--lf", f"-ocache_dir={tmp_path / 'cache'}", "--collect-only", "-q")
    assert outcome.test_ids == [test]
