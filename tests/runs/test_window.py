"""A record keeps what replays the stopping rule; that live ranks follow it is shown by tests/ranks/test_window.py."""

import json
from pathlib import Path
from statistics import median

from fixtures.stats.stopping_rule import is_precise_enough
from tests.forked import perf as pytest_perf


def test_a_record_replays_the_rule_launch_by_launch(tmp_path: Path) -> None:
    outcome = pytest_perf(
        tmp_path / "baselines",
        *("perf/test_scaling.py", "-k", "2cpu", "--launches=2", "--steps=20", "--warmup=6", "--explain=none"),
        *("--workload=tests.workloads_for_tests:steady", "--workload=tests.workloads_for_tests:restless"),
        f"--benchmark-json={tmp_path / 'run.json'}",
    )
    assert outcome.exit_code == 0, outcome.output
    steps_of_launches = {}
    for benchmark in json.loads((tmp_path / "run.json").read_text())["benchmarks"]:
        info, left = benchmark["extra_info"], benchmark["stats"]["data"]
        steps_of_launches[info["workload"]] = info["launch_steps"]
        for steps, launch_median_s in zip(info["launch_steps"], info["launch_medians_s"], strict=True):
            launch, left = left[:steps], left[steps:]
            looks = [number for number in (8, 16) if is_precise_enough(launch[:number], 0.25) and number <= steps]
            assert steps == min([*looks, 20])
            assert launch_median_s == median(launch)
        assert left == []
    assert steps_of_launches == {"steady": [8, 8], "restless": [20, 20]}
