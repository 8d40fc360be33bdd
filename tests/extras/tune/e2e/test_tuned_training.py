"""``pytest perf --tune`` on live ranks: two of them over gloo."""

import json
from pathlib import Path

from tests.forked import live_perf as pytest_perf


def test_a_hook_that_is_fast_and_wrong_does_not_win_and_the_search_ends(tmp_path: Path) -> None:
    """The hook sends nothing and claims to deliver the mean."""
    file = tmp_path / "run.json"
    pytest_perf(
        tmp_path,
        *("perf", "--tune", "--minutes=1.5", "--launches=1", "--steps=2", "--warmup=1"),
        *(
            "--workload=tests.e2e.injected:wide",
            "--hook=tests.hooks_for_tests:fast_and_wrong",
            f"--benchmark-json={tmp_path / 'run.json'}",
        ),
    ).exits(0)
    (tuning,) = json.loads(file.read_text())["tuning"]
    excluded = {one["config"]: one["excluded"] for one in tuning["tried"] if "excluded" in one}
    wrong = [why for name, why in excluded.items() if name.startswith("own_fast")]
    assert wrong, "it is the fastest, so it was looked at"
    assert "the mean is" in wrong[0]
    assert not tuning["config"].startswith("own_fast")
    assert tuning["decision"] in ("faster", "default")
    assert min(tuning["launches"], len(tuning["tried"])) > 5
