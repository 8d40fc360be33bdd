"""``--hook`` with an invalid hook is an error; a hook that breaks its promise is wrong in the tables and the record."""

import json
import re
import shlex
from pathlib import Path

import pytest

from fixtures.gradients.replay import replay
from tests.command_line import QUICK
from tests.forked import perf as pytest_perf

HERE = "tests.hooks_for_tests"


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("bf16", "--hook bf16: a hook of your own is PKG.MODULE:ATTR; torch's are always tested"),
        ("tests.hooks_for_tests:nothing", "module 'tests.hooks_for_tests' has no 'nothing'"),
        ("tests.hooks_for_tests:HERE_IS_NOTHING", "has no 'HERE_IS_NOTHING'"),
        (
            "tests.no_such_module:hook",
            "importing it raised ModuleNotFoundError: No module named 'tests.no_such_module'",
        ),
        ("tests.hooks_for_tests:named_like_another", "there is another hook or config named 'bf16'"),
        ("tests.hooks_for_tests:low_rank", "hooks may have promise='low_rank': promise 'nothing', with error_feed"),
        ("tests.hooks_for_tests:Memory", "is a type, not a Hook: from fixtures.matrix.hook import Hook"),
    ],
)
def test_a_wrong_hook_says_what_is_wrong(tmp_path: Path, hook: str, says: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", f"--hook={hook}")
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
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
    )
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
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
