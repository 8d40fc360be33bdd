"""A workload that differs from its records: not compared, reported once, and not saved among them."""

import shutil
from pathlib import Path

import pytest

from tests.builders import unwrapped
from tests.command_line import QUICK
from tests.forked import perf as pytest_perf
from tests.saved_records import edit, infos, read

ASKED = ("perf/test_scaling.py", *QUICK, "--instance=here")
STEADY, OF_512 = (f"--workload=tests.workloads_for_tests:{name}" for name in ("steady", "steady_512"))
SAID = (
    "the records have another workload under this name: batch 512 in the records, 2 now; "
    "rename it, remove these records, or save with another --benchmark-storage"
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of three tests with batch 512."""
    storage = tmp_path_factory.mktemp("recorded") / "baselines"
    outcome = pytest_perf(storage, *ASKED, OF_512, "--benchmark-save=of_512")
    assert outcome.exit_code == 0, outcome.output
    return storage


@pytest.fixture
def storage(recorded: Path, tmp_path: Path) -> Path:
    shutil.copytree(recorded, tmp_path / "baselines")
    return tmp_path / "baselines"


def test_a_batch_that_changed_under_one_name_is_no_baseline_and_said_once(storage: Path, tmp_path: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, STEADY, f"--benchmark-json={tmp_path / 'run.json'}")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.unwrapped.count(f"steady: 4 of 4 tests not compared on here: {SAID}") == 1
    assert outcome.output.count("another workload") == 1
    assert "had no baseline" not in outcome.output  # a record would be refused
    verdicts = [info["verdict"] for info in infos(read(tmp_path / "run.json")).values()]
    assert [(verdict["word"], verdict["reason"]) for verdict in verdicts] == [("no baseline", SAID)] * 4


def test_with_require_baseline_such_a_test_fails_with_what_differs(storage: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, STEADY, "--require-baseline", "-k", "single")
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert f"Failed: {SAID[:60]}" in outcome.output


def test_it_is_not_saved_among_the_others(storage: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, STEADY, "--benchmark-save=of_2")
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    lines = outcome.output.partition("ERROR: not saved: ")[2].partition("=====")[0].splitlines()
    assert max(map(len, lines)) <= 100
    (line,) = (line for line in unwrapped(outcome.output.splitlines()) if line.startswith("ERROR: not saved: "))
    assert line.endswith(f"test_scaling[steady-1cpu-single] and 3 more on here: {SAID}")
    assert [file.name for file in storage.glob("*/*")] == ["0001_of_512.json"]


def test_another_machine_under_the_same_name_is_reported_once_and_in_the_json(storage: Path, tmp_path: Path) -> None:
    edit(storage, lambda record: record["environment"].update(cpu="another CPU", cores=4096.0))
    outcome = pytest_perf(storage, *ASKED, OF_512, "--min-slowdown=100", f"--benchmark-json={tmp_path / 'run.json'}")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.unwrapped.count("another machine under the same name here: CPU ") == 1
    assert ", in the records another CPU; cores per rank " in outcome.unwrapped
    assert "record baselines of its own with --instance NAME" in outcome.unwrapped
    for info in infos(read(tmp_path / "run.json")).values():
        assert info["verdict"]["word"] == "ok"
        assert [difference.partition(" ")[0] for difference in info["other_machine"]] == ["CPU", "cores"]


def test_fewer_launches_steps_and_warm_up_than_in_the_records_are_reported(storage: Path) -> None:
    outcome = pytest_perf(storage, *ASKED, OF_512, "--steps=8", "--min-slowdown=100")
    assert outcome.exit_code == 0, outcome.output
    said = (
        "this run has 1 launch of up to 8 steps, warm-up 4; the newest record of 4 of 4 tests on here has "
        "1 launch of up to 3 steps, warm-up 4"
    )
    assert said in outcome.unwrapped
