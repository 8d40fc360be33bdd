"""What limits the steps of scripts, from the host's time and a profile of live ranks."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median

import pytest

from fixtures.stats.step_account import account_of
from fixtures.stats.step_limit import StepLimit, limited_by
from fixtures.trace.breakdown import device_times, over_ranks
from tests.script.conftest import PLAIN, STEP, Run

Write = Callable[..., Path]
IMPORTS = f"import time\n{PLAIN}"
# Long enough for its shares to be apart from their thresholds.
WORK = "for _ in range(3000): x.mul(0.99)"


def limit_of(run: Run, path: Path) -> StepLimit:
    results = run(path, watch_s=1.0, profile=8, steps=20)
    hosts = [one.host_time for one in results if one.host_time is not None]
    breakdown = over_ranks([one.breakdown for one in results if one.breakdown is not None])
    # Of the same steps: whether the machine is as fast as before is not the question here.
    measured_ms = 1e3 * max(median(one.step_s) for one in hosts)
    return limited_by(account_of(hosts, device_times(breakdown), measured_ms=measured_ms, on_gpu=False))


def line_with(path: Path, text: str) -> str:
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return f"train.py:{number}"


LOADER = """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        for _ in range(30_000): pass
        return torch.randn(64), i % 10
"""
ACCUMULATES = (
    "for part in range(4):\n    x, y = next(batches)\n    loss_of(m(x), y).backward()\no.step(); o.zero_grad()"
)
COLLATES = """
def collate(samples):
    time.sleep(0.2)
    return torch.utils.data.default_collate(samples)
"""
# Each fourth step waits for the four.
WORKERS = (
    "batches = iter(torch.utils.data.DataLoader([(torch.ones(64), 1)] * 10_000, 32, num_workers=4, collate_fn=collate))"
)

# Before the host is watched.
PAUSES = """
from fixtures.ranks.script import flow
host = flow.WatchedHost
flow.WatchedHost = lambda *of: time.sleep(1) or host(*of)
"""


@pytest.mark.parametrize(
    ("by", "line", "before", "step"),
    [
        ("own", "sleep", "", STEP.replace("o.step()", "time.sleep(0.05)\no.step()")),
        ("own", "for _ in", "", f"{STEP}{WORK}"),
        (
            "loader",
            "for _ in range(30_000)",
            f"{LOADER}batches = iter(torch.utils.data.DataLoader(Slow(), 16))",
            ACCUMULATES,
        ),
        ("loader", "next(batches)", COLLATES + WORKERS, STEP.replace("batch()", "next(batches)")),
        ("transfer", "all_reduce", "", f"{STEP}dist.all_reduce(torch.ones(1 << 22))"),
        ("transfer", "barrier", "", f"{STEP}for _ in range(20): dist.barrier()"),
    ],
    ids=["sleep before the update", "loop after it", "accumulation", "slow workers", "own all-reduce", "barriers"],
)
def test_the_limit_has_the_line_in_which_it_lies(
    run: Run, script: Write, by: str, line: str, before: str, step: str
) -> None:
    path = script(IMPORTS + before, step, steps=200)
    found = limit_of(run, path)
    # Of two ranks on two cores one may be late: the others wait for it because of the same part.
    limit = found.late_by if found.by == "waiting" else found.by
    assert (limit, (found.line or "").split(" ")[0]) == (by, line_with(path, line))


def test_what_a_loader_has_ready_after_the_window_does_not_shorten_the_watched_steps(run: Run, script: Write) -> None:
    step = f"{STEP.replace('batch()', 'next(batches)')}time.sleep(0.035)"
    first, _ = run(script(IMPORTS + PAUSES + COLLATES + WORKERS, step, steps=200), watch_s=1.0, steps=20)
    assert first.host_time is not None
    assert fmean(first.host_time.step_s) > 0.9 * fmean(first.step_s)


def test_the_rank_that_the_others_wait_for_has_the_line_that_makes_it_late(run: Run, script: Write) -> None:
    path = script(IMPORTS, f"{STEP}if rank == 0:\n    {WORK}", steps=200)
    found = limit_of(run, path)
    assert (found.by, found.rank, found.late_by) == ("waiting", 0, "own")
    assert found.line == line_with(path, "for _ in")


def test_ranks_that_are_late_by_turns_wait_for_each_other(run: Run, script: Write) -> None:
    path = script(IMPORTS, STEP.replace("batch()", "batch(40_000 if i % 2 == rank else 32)"), steps=200)
    found = limit_of(run, path)
    assert (found.by, found.rank) == ("waiting", None)


def test_a_callback_of_one_line_that_trains_is_named(run: Run, script: Write) -> None:
    trainer = """
class Trainer:
    def __init__(self, callback): self.callback = callback
    def train(self):
        for _ in range(200):
            x, y = batch()
            loss_of(m(x), y).backward()
            o.step(); o.zero_grad()
            self.callback()
def callback():
    time.sleep(0.05)
"""
    path = script(IMPORTS + trainer, "Trainer(callback).train()", steps=1)
    found = limit_of(run, path)
    assert (found.by, found.line) == ("own", f"{line_with(path, 'sleep')} callback()")
