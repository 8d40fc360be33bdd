"""--hook: an invalid hook is an error, one that is wrong is wrong in the tables, one that raises fails one test."""

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures.gradients.replay import replay
from tests.command_line import QUICK, Outcome
from tests.forked import perf
from tests.forked import perf as pytest_perf
from tests.runs.failing_hooks import HUNG, RAISED

HERE = "tests.hooks_for_tests"


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("bf16", "--hook bf16: a hook of your own is PKG.MODULE:ATTR; torch's are always tested"),
        ("tests.hooks_for_tests:named_like_another", "there is another hook or config named 'bf16'"),
    ],
)
def test_a_wrong_hook_says_what_is_wrong(tmp_path: Path, hook: str, says: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", f"--hook={hook}").exits(pytest.ExitCode.USAGE_ERROR)
    assert says in outcome.errors


def test_a_wrong_hook_is_wrong_in_the_tables_and_in_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = "2cpu and own_claims_bf16 and not ways and not any_shape and (default or gradients_wire or throughput)"
    file = tmp_path / "run.json"
    outcome = pytest_perf(
        tmp_path,
        *("perf", "-p", "tests.runs.broken_promise", *QUICK, "-k", chosen),
        *(f"--hook={HERE}:claims_bf16", f"--benchmark-json={file}"),
    ).exits(pytest.ExitCode.TESTS_FAILED)
    assert re.search(r"hook own_claims_bf16 +1 +1 *\n", outcome.output)
    assert "wrong: test_gradients_wire[2cpu-own_claims_bf16]: rank 0, collectives of 4.194304 MB" in outcome.output
    assert re.search(r"own_claims_bf16 .* wrong .* no baseline", outcome.output)
    assert "; wrong gradients: own_claims_bf16" in outcome.unwrapped
    assert re.search(
        r"\nnext: repair the hook, then: .* perf -k '\(gradients or training\) and "
        r"\(own_claims_bf16\)' --hook=\S+claims_bf16 .*\n",
        outcome.output,
    )
    assert "record one" not in outcome.output
    assert re.search(r"^rank 0, collectives of 4.194304 MB a step, ", outcome.output, re.MULTILINE)
    assert "def test_gradients" not in outcome.output
    (line,) = set(re.findall(r"replay: python -m fixtures.gradients.replay (.*)", outcome.output))
    world, check, arguments = shlex.split(line)
    assert replay(world, check, json.loads(arguments)) == 1
    assert "MB a step on the wire, 2.097152 MB are promised" in capsys.readouterr().out
    (benchmark,) = json.loads(file.read_text())["benchmarks"]
    assert (benchmark["extra_info"]["fidelity"], benchmark["extra_info"]["lossless"]) == ("wrong", False)


def test_a_hook_that_is_wrong_everywhere_is_a_line_a_kind_of_test(tmp_path: Path) -> None:
    outcome = pytest_perf(
        tmp_path,
        *("perf", "-p", "tests.runs.broken_promise", *QUICK, "-k", "gradients and own_claims_bf16"),
        f"--hook={HERE}:claims_bf16",
        variables={"DDP_PERF_TESTS_WRONG": "1", "CI": ""},  # on CI pytest repeats each message in its summary
    )
    ((failed, likewise),) = re.findall(r" (\d+) failed, .*?(\d+) failed likewise", outcome.output)
    assert int(likewise) > 80
    assert len(re.findall(r"^replay: python -m fixtures", outcome.output, re.MULTILINE)) == int(failed) < 12
    assert len(re.findall(r"^wrong: test_gradients", outcome.output, re.MULTILINE)) == int(failed)
    assert re.search(r"^wrong: test_gradients_ways\[.*\] and \d+ like it: ", outcome.output, re.MULTILINE)
    assert len(outcome.output.splitlines()) < 140


# A hook that raises or hangs fails one test, which has its reproducer; its other tests are not run


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
    outcome = run(tmp_path, hook, "-rfs", f"--junitxml={tmp_path / 'junit.xml'}").exits(pytest.ExitCode.TESTS_FAILED)
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
    outcome = run(tmp_path, "raises_for_float16", "-v")
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
    outcome = run(tmp_path, "averages", "-k", "powersgd and 2cpu and (zero_stay_zero or just_halve or any_shape)")
    assert len(failed(outcome)) == 1
    assert re.search(r"died of SIGSEGV; \d+ other tests of powersgd_rank1 not run", outcome.output)
    assert re.search(r" 1 failed, [1-9]\d* passed, ", outcome.output)
