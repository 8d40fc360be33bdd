"""A hook that raises or hangs fails one test, which has its reproducer; its other tests are not run."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import QUICK, Outcome
from tests.forked import perf
from tests.runs.failing_hooks import HUNG, RAISED

HERE = "tests.hooks_for_tests"
ANY_SHAPE = "test_gradients_of_any_shape[3cpu-{}]"


def run(folder: Path, hook: str, *more: str) -> Outcome:
    return perf(folder, "perf", "-p", "tests.runs.failing_hooks", *QUICK, f"--hook={HERE}:{hook}", "-k", hook, *more)


@pytest.mark.parametrize(
    ("hook", "fails_in", "says"),
    [
        ("divides_twice", ANY_SHAPE, "rank 0 raised HookError: hook divides_twice, bucket 0 of 8 elements"),
        ("hangs_where_it_has_nothing_to_send", ANY_SHAPE, f"rank 0 {HUNG}"),
        (
            "raises",
            "test_throughput[vit_tiny-2cpu-{}]",
            f"launch 1 of raises on 2cpu: rank 0 {RAISED.format('raises')}",
        ),
    ],
    ids=["raises in an example", "hangs in an example", "always raises"],
)
def test_one_test_fails_and_the_others_are_not_run(tmp_path: Path, hook: str, fails_in: str, says: str) -> None:
    outcome = run(tmp_path, hook, "-rfs", f"--junitxml={tmp_path / 'junit.xml'}")
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert [line.partition(" - ")[0].partition("::")[2] for line in failed(outcome)] == [fails_in.format(hook)]
    (number,) = re.findall(rf"^{re.escape(says)}.*; (\d+) other tests of {hook} not run$", outcome.output, re.MULTILINE)
    left_out = f"not run: {hook} failed in {fails_in.format(hook)}"
    skipped = re.findall(rf"^SKIPPED \[(\d+)\] .*{re.escape(left_out)}$", outcome.output, re.MULTILINE)
    assert sum(map(int, skipped)) == int(number) > 90
    assert len(outcome.output.splitlines()) - len(skipped) < 80
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")


def failed(outcome: Outcome) -> list[str]:
    return [line for line in outcome.output.splitlines() if line.startswith("FAILED ")]


def test_the_reproducer_is_the_example_that_failed_first_and_its_row_says_how_many_are_not_run(tmp_path: Path) -> None:
    hook = "divides_twice"
    outcome = run(tmp_path, hook)
    replayed = r"^replay: python -m fixtures.gradients.replay 3cpu hook_steps:check .*\"one_rank_only\""
    assert re.search(replayed, outcome.output, re.MULTILINE)
    assert "Then its why_not returns the reason" in outcome.output
    assert "Falsifying example" not in outcome.output
    assert re.search(rf"^hook {hook} +\d+ +1 +\d+ *$", outcome.output, re.MULTILINE), "right, wrong, not run"
    assert re.search(rf"wrong: {re.escape(ANY_SHAPE.format(hook))}: rank 0 .*; \d+ other tests of", outcome.unwrapped)
    assert f"; wrong gradients: {hook}" in outcome.unwrapped


def test_a_limit_of_one_dtype_costs_only_its_tests_and_all_limits_are_told_in_one_run(tmp_path: Path) -> None:
    hook = "raises_for_float16"
    outcome = run(tmp_path, hook, "-v")
    assert "not run" not in outcome.output
    assert {line.partition("::")[2].partition("[")[0] for line in failed(outcome)} == {
        "test_gradients_of_any_shape",
        "test_gradients_ways",
    }
    assert all("any_shape" in line or "other_dtypes" in line for line in failed(outcome))


def test_other_hooks_go_on_and_so_does_powersgd_of_another_rank(tmp_path: Path) -> None:
    outcome = run(tmp_path, "raises_for_float16", "-k", "3cpu and any_shape and (raises_for_float16 or bf16)")
    assert re.search(r"1 failed, 1 passed, ", outcome.output)
    # Tests without a hook in their id are those of powersgd_rank1.
    some = "powersgd and 2cpu and (zero_stay_zero or just_halve or any_shape)"
    outcome = run(tmp_path, "averages", "-k", some)
    assert len(failed(outcome)) == 1
    assert re.search(r"died of SIGSEGV; \d+ other tests of powersgd_rank1 not run", outcome.output)
    assert re.search(r" 1 failed, [1-9]\d* passed, ", outcome.output)
