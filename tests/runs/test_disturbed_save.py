"""A disturbed run with --benchmark-save: its record is kept outside the baselines, and one command accepts it."""

import json
import re
import shlex
from pathlib import Path

import pytest

from fixtures.extras import EXTRAS
from tests.forked import command
from tests.forked import perf as pytest_perf
from tests.runs.jumping_canary import LAUNCHES

SAVE = (
    *("perf/test_scaling.py", "-k=1cpu", "--workload=tests.workloads_for_tests:steady", "--instance=rack-7"),
    *(f"--launches={LAUNCHES}", "--steps=8", "--warmup=4", "--benchmark-save=night"),
)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "baselines"


def records_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.json"))


@pytest.mark.skipif("promote" not in EXTRAS, reason="the extra promote was deleted")
def test_the_record_of_a_disturbed_run_becomes_a_baseline_by_the_command_shown(storage: Path) -> None:
    outcome = pytest_perf(
        storage, "-p", "tests.runs.jumping_canary", *SAVE, "--explain=none", "--min-slowdown=2"
    ).exits(pytest.ExitCode.TESTS_FAILED)
    assert records_in(storage.parent) == ["baselines-disturbed/rack-7/0001_night.json"]
    assert (storage.parent / "baselines-disturbed/.gitignore").read_text() == "*\n"
    (shown,) = re.findall(r"^next: accept the record, .*: python -m fixtures (.*)$", outcome.output, re.M)
    arguments = shlex.split(shown)
    accept = arguments.index("--accept")
    refused = command(*arguments[:accept], *arguments[accept + 2 :], "--yes").exits(1)
    assert "disturbed: memory_copy_16mb 100 % slower from the first test to the last" in refused.errors
    command(*arguments, "--yes").exits(0)
    kept, saved = (json.loads((storage.parent / name).read_text()) for name in records_in(storage.parent))
    assert records_in(storage) == ["rack-7/0001_night.json"]
    assert saved == {**kept, "accepted": "other work disturbed the run"}


def test_a_save_shows_its_profiles_only_where_explain_is_given(storage: Path) -> None:
    table = "where the time of a step of steady on 1cpu goes"
    assert table not in pytest_perf(storage, *SAVE).output
    assert table in pytest_perf(storage, *SAVE, "--explain=all").output
    (record, _) = sorted(storage.rglob("*.json"))
    assert all("breakdown_ms" in one["extra_info"] for one in json.loads(record.read_text())["benchmarks"])


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (
            "failing_canary",
            "the canaries over native could not be timed, so nothing tells whether the machine was disturbed, and this "
            "run makes no baseline: timing the canaries: rank 0 was killed by SIGKILL",
        ),
        (
            "changing_source",
            "/home/me/train.py changed while the run measured: its results may be of two versions, so this run makes "
            "no baseline",
        ),
    ],
)
def test_a_doubtful_record_is_no_baseline(plugin: str, says: str, storage: Path) -> None:
    outcome = pytest_perf(storage, "-p", f"tests.runs.{plugin}", *SAVE, "--explain=none").exits(
        pytest.ExitCode.TESTS_FAILED
    )
    assert outcome.unwrapped.count(says) == 1
    assert records_in(storage.parent) == ["baselines-disturbed/rack-7/0001_night.json"]
    (file,) = storage.parent.rglob("*.json")
    assert json.loads(file.read_text())["doubts"] == [says]
