"""``pytest perf --tune`` on live ranks: two of them over gloo."""

import json
from typing import Any

import pytest

from tests.command_line import Outcome, pytest_perf

FAST_AND_WRONG = "tests.hooks_for_tests:fast_and_wrong"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Any]]:
    """With a hook that sends nothing and claims to deliver the mean."""
    folder = tmp_path_factory.mktemp("tuned")
    outcome = pytest_perf(
        folder,
        *("perf", "--tune", "--tune-minutes=4", "--launches=1", "--max-pairs=1", "--steps=2", "--warmup=1"),
        *("--workload=tests.e2e.injected:wide", f"--hook={FAST_AND_WRONG}", f"--benchmark-json={folder / 'run.json'}"),
    )
    assert outcome.exit_code == 0, outcome.output
    (tuning,) = json.loads((folder / "run.json").read_text())["tuning"]
    return outcome, tuning


def test_a_hook_that_is_fast_and_wrong_does_not_win(tuned: tuple[Outcome, dict[str, Any]]) -> None:
    _, tuning = tuned
    excluded = {one["config"]: one["excluded"] for one in tuning["tried"] if "excluded" in one}
    wrong = [why for name, why in excluded.items() if name.startswith("own_fast")]
    assert wrong, "it is the fastest, so it was looked at"
    assert "the mean is" in wrong[0]
    assert not tuning["config"].startswith("own_fast")


def test_the_search_ends(tuned: tuple[Outcome, dict[str, Any]]) -> None:
    _, tuning = tuned
    assert tuning["decision"] in ("faster", "default")
    assert tuning["launches"] > len(tuning["tried"]) > 5
