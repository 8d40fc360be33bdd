"""Runs with the training tests of hooks."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.command_line import QUICK
from tests.forked import perf as pytest_perf

HERE = "tests.hooks_for_tests"


def test_a_hook_with_a_higher_loss_is_not_wrong_and_the_next_command_repeats_its_training(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    options = ("-p", "tests.extras.loss.harmed_loss", *QUICK, f"--hook={HERE}:remembers")
    chosen = "2cpu-own_remembers] or default and own_remembers or training and own_remembers"
    outcome = pytest_perf(tmp_path, "perf", *options, "-k", chosen, f"--benchmark-json={file}").exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert "; loss of the small problem beyond its limit: own_remembers +5.6 %" in outcome.unwrapped
    assert "wrong gradients" not in outcome.output
    record = json.loads(file.read_text())
    assert {test["extra_info"]["fidelity"] for test in record["benchmarks"]} == {"lossy"}
    (typed,) = re.findall(r"^next: state the cost as loss_excess_percent, .* (perf -k .*)$", outcome.output, re.M)
    again = pytest_perf(tmp_path, *shlex.split(typed), *options[:2])
    assert list(record["failed"]) == re.findall(r"^FAILED (\S+)", again.output, re.M)


def test_a_precision_is_a_part_of_the_name_of_a_training(tmp_path: Path) -> None:
    both = ("--precision=autocast", "--precision=fp32")
    outcome = pytest_perf(tmp_path, "perf", "--collect-only", "-q", "-k", "training and fp16_wrapper", *both)
    assert outcome.test_ids == [
        "perf/test_training.py::test_training[fp16_wrapper-autocast]",
        "perf/test_training.py::test_training[fp16_wrapper]",
    ]


def test_training_comes_last(tmp_path: Path) -> None:
    tests = pytest_perf(tmp_path, "perf", "--collect-only", "-q").test_ids
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests if "test_collectives" not in test))
    assert files[-1] == "perf/test_training.py"
