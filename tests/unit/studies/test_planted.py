"""Planted slowdowns: the workloads, and the tables of runs with them."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fixtures.matrix.lookup import NotFound
from fixtures.matrix.workloads import WORKLOADS, find_workload
from studies.calibration_measured import noise, plant_results
from studies.planted import MAX_CTAS, UNPLANTED, Plant, plant_of

SLOW = "studies.planted:vit_tiny__200000us__1"


def loss_s(name: str) -> float:
    workload = find_workload(name)
    torch.manual_seed(0)
    batch = [torch.stack(tensors) for tensors in zip(*(workload.sample() for _ in range(2)), strict=True)]
    model = workload.model()
    times_s = []
    for _ in range(6):  # the first also warms up; the least is that without a neighbour's burst
        began = time.perf_counter()
        workload.loss(model, *batch)
        times_s.append(time.perf_counter() - began)
    return min(times_s)


def test_a_planted_workload_takes_longer_by_the_plant(monkeypatch: pytest.MonkeyPatch) -> None:
    planted_s = loss_s(SLOW)
    monkeypatch.setenv(UNPLANTED, "1")
    assert planted_s >= 0.2
    assert planted_s - min(loss_s(SLOW) for _ in range(5)) > 0.1  # one may take long on a busy machine


def test_the_other_build_has_no_plants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "studies.planted", str(other)], check=True)
    monkeypatch.setenv(MAX_CTAS, "4")
    said = f"import os; print(os.environ['{UNPLANTED}'], os.environ.get('{MAX_CTAS}'))"
    done = subprocess.run([other, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == "1 None\n"


def test_a_planted_workload_is_the_workload_under_a_name_of_its_own() -> None:
    planted = find_workload(SLOW)
    assert planted.name == "vit_tiny__200000us__1"
    assert planted.model is WORKLOADS["vit_tiny"].model
    assert plant_of(planted.name) == Plant(unit="us", size=200_000)
    assert plant_of("vit_tiny") is None
    with pytest.raises(NotFound, match="has no 'vit_tiny__us__1'"):
        find_workload("studies.planted:vit_tiny__us__1")


def test_what_was_found_is_counted_by_plant() -> None:
    run = {
        "benchmarks": [
            compared("vit_l_32__900us__1", "slower", 1.1),
            compared("vit_l_32__900us__2", "ok", 0.8),
            compared("vit_l_32__0us__1", "ok", -0.1),
            compared("vit_l_32__400mb__1", "slower", 2.0),
            compared("vit_l_32", "slower", 3.0),
        ]
    }
    small, none, large = plant_results([run])
    assert {row.cell for row in (small, none, large)} == {"8gpu-ddp native"}
    assert (small.planted, small.percent, small.words, small.pairs) == ("400 mb", None, ["slower"], [3])
    assert (none.planted, none.percent, none.changes_percent) == ("0 us", 0.0, [-0.1])
    assert large.planted == "900 us"
    assert large.percent == pytest.approx(1.0)
    assert (large.words, large.changes_percent, large.pairs) == (["slower", "ok"], [1.1, 0.8], [3, 3])


def test_other_rules_judge_the_same_steps() -> None:
    slower = [compared(f"vit_l_32__7000us__{copy}", "slower", percent) for copy, percent in enumerate((8.0, 6.0))]
    equal = [compared(f"vit_l_32__0us__{copy}", "ok", percent) for copy, percent in enumerate((0.5, -0.5))]
    nothing, planted = plant_results([{"benchmarks": [*slower, *equal]}])
    assert nothing.rivals == {"`mean:5%`": 0, "7 % on the median": 0, "Mann-Whitney at 0.05": 1}
    assert planted.rivals == {"`mean:5%`": 2, "7 % on the median": 1, "Mann-Whitney at 0.05": 2}


def compared(workload: str, word: str, change_percent: float) -> dict[str, Any]:
    """Benchmark with three launches of eight steps for each build, which differ by at most 0.2 %."""
    steps = [0.09 * (1 + step / 4000) for step in range(8)] * 3
    against = {
        "launch_medians_s": [0.09] * 3,
        "launch_steps": [8] * 3,
        "step_s": steps,
        "change_percent": change_percent,
        "pairs": 3,
    }
    return {
        "name": f"test_throughput[{workload}-8gpu-ddp]",
        "stats": {"data": [step * (1 + change_percent / 100) for step in steps]},
        "extra_info": {"interconnect": "native", "verdict": {"word": word}, "against": against},
    }


def test_noise_is_separated_by_its_source() -> None:
    def run(*launches: float) -> dict[str, Any]:
        steps = [launch * factor for launch in launches for factor in (0.99, 1.0, 1.01)]
        info = {"launch_medians_s": list(launches)}
        stats = {"data": steps, "rounds": len(steps)}
        return {"benchmarks": [{"name": "one", "stats": stats, "extra_info": info}]}

    ((name, step, launch, between),) = noise([run(0.100, 0.102), run(0.110, 0.112)])
    assert name == "one"
    assert step == pytest.approx(1.4826, rel=0.02)
    assert launch == pytest.approx(100 * 0.0190 / 2**0.5, rel=0.05)
    assert between == pytest.approx(100 * 0.0945 / 2**0.5, rel=0.02)
    assert next(iter(noise([run(0.1, 0.1)])))[3] is None
