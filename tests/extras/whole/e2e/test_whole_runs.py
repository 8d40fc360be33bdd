"""``pytest perf --whole`` on live ranks: two sides, and Ctrl-C."""

import json
import signal
from pathlib import Path

from tests.e2e.perf_process import Perf, wait_until
from tests.forked import live_perf

SCRIPT = """
import time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def evaluate():
    until = time.perf_counter() + 0.2
    while time.perf_counter() < until:
        pass

for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if step % 20 == 19:
        evaluate()
"""


def script(folder: Path, steps: int) -> str:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("STEPS", str(steps)))
    return f"--script={path}"


def test_both_sides_are_compared_part_by_part_and_are_in_the_record(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    given = ("perf/test_whole.py", script(tmp_path, 90), "--whole", "--against-env=OMP_NUM_THREADS=2")
    outcome = live_perf(tmp_path, *given, f"--benchmark-json={file}").exits(0)
    (found,) = json.loads(file.read_text())["whole"]
    for side in (found["account"], found["other"]):
        assert [(one["line"], one.get("period")) for one in side["seldom"]] == [("train.py:21 evaluate", 20)]
        assert side["ended"] == "end"
    assert "part by part, with OMP_NUM_THREADS=2 -> this side" in outcome.unwrapped


def test_an_interrupted_run_keeps_what_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    run = Perf(
        "-k", "test_whole", script(tmp_path, 10**6), "--whole", f"--benchmark-json={file}", output=tmp_path / "output"
    )
    wait_until(lambda: max(run.steps(), default=0) >= 100, run, within_s=120)
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == 2
    (found,) = json.loads(file.read_text())["whole"]
    assert found["account"]["steps"] >= 60
    assert "of an hour: steps" in run.output.read_text()
    wait_until(lambda: not run.left(), run, within_s=10)
