"""--quick: a first answer from a few configs, not judged; -q: the table and the closing block alone."""

import re
from pathlib import Path

import pytest

from fixtures.matrix.configs import QUICK
from tests.command_line import Outcome
from tests.forked import perf as pytest_perf

STEADY = "--workload=tests.workloads_for_tests:steady"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return pytest_perf(tmp_path_factory.mktemp("storage"), "perf", "--quick", STEADY)


def test_a_quick_run_measures_some_configs_briefly_judges_nothing_and_names_the_full_run(quick: Outcome) -> None:
    assert quick.exit_code == 0, quick.output
    assert f"{len(QUICK)} passed" in quick.output
    assert "; 1 launch of 6 warm-up and up to 8 measured steps; " in quick.output
    assert "verdict: not compared, a quick run is too short to be judged (1 launch of up to 8 steps)\n" in quick.output
    assert "no baseline" not in quick.output
    assert "take turns, because their launches do not decide which is the fastest" in quick.output
    assert " in turns in the same processes" in quick.unwrapped
    # A model of 16 kB: every cap makes one bucket.
    assert "measured once, the same on this model: bucket_10mb, bucket_25mb, bucket_50mb\n" in quick.output
    assert re.search(
        r"^next: measure in full and store that as the baseline: .*pytest .*--benchmark-save=NAME$",
        quick.output,
        re.MULTILINE,
    )
    assert "--quick" not in quick.output


def test_turns_that_fail_cost_nothing_else(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--quick", STEADY, "-p", "tests.runs.failing_turns").exits(0)
    assert "they could not: taking turns: rank 1 ran out of memory" in outcome.output
    assert "proved: no, one launch of each config decides nothing" in outcome.output


@pytest.mark.parametrize(
    "with_", ["--benchmark-save=x", "--benchmark-autosave", "--require-baseline", "--sensitivity=10"]
)
def test_it_records_and_requires_no_baseline(tmp_path: Path, with_: str) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--quick", with_).exits(pytest.ExitCode.USAGE_ERROR)
    assert outcome.errors.startswith(f"ERROR: --quick measures too briefly for {with_.partition('=')[0]}")


def test_what_k_selects_is_measured_briefly_and_nothing_but_speed(tmp_path: Path) -> None:
    listed = pytest_perf(tmp_path, "perf", "--quick", "-k", "powersgd_rank4", "--collect-only", "-q", STEADY)
    assert listed.test_ids == ["perf/test_throughput.py::test_throughput[steady-2cpu-powersgd_rank4]"]


def test_q_leaves_the_card_and_the_table(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, "perf", "--quick", "-q", STEADY)
    dots, *lines = outcome.output.splitlines()
    rest = [*filter(None, lines)]
    assert re.match(r"\.{10} +\[100%\]$", dots)
    assert rest[0].startswith("steady, 1cpu")
    heading = next(number for number, line in enumerate(rest) if "ddp-perf on" in line)
    assert rest[-2].startswith("next: ")  # the card comes after the tables, and is said once
    assert len(rest) - heading <= 10
    assert outcome.output.count("proved: ") == 1
    assert "gradients: of lossy ones" not in outcome.output
    assert len(rest) < 40
