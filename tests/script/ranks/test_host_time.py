"""The time of the host of scripts, by phase and line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.stats.step_account import HostTime
from tests.script.conftest import PLAIN, STEP, Run

Write = Callable[..., Path]
WATCH = {"watch_s": 1.0}


def times_of(run: Run, path: Path) -> list[HostTime]:
    found = [result.host_time for result in run(path, **WATCH)]
    assert None not in found
    return [one for one in found if one is not None]


def line_of(one: HostTime, phase: str, path: Path, text: str) -> float:
    """Milliseconds of this phase in the line of the script with this text."""
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return sum(line.ms for line in one.lines if line.phase == phase and line.line == f"train.py:{number}")


def largest(one: HostTime) -> str:
    return max(one.phases_ms, key=lambda phase: one.phases_ms[phase])


# Python, a sleep, a call of C that holds the GIL, and one that does not.
PLANTED = {
    "python": "for _ in range(300_000): pass",
    "sleep": "time.sleep(0.02)",
    "held": "sorted(numbers)",
    "numpy": "matrix @ matrix",
}
BEFORE = """
import json, numpy, time
numbers, matrix, spent = [(i * 7919) % 100_003 for i in range(100_000)], numpy.ones((500, 500)), []
"""


def test_planted_work_has_the_share_of_its_own_clock(run: Run, script: Write, tmp_path: Path) -> None:
    clocked = (
        f"began = time.perf_counter()\n{call}\nof_step['{name}'] = time.perf_counter() - began"
        for name, call in PLANTED.items()
    )
    writes = f"open('{tmp_path}/spent' + str(rank), 'w').write(json.dumps(spent))"
    path = script(PLAIN + BEFORE, "\n".join((STEP, "of_step = {}; spent.append(of_step)", *clocked, writes)))
    for rank, one in enumerate(times_of(run, path)):
        steps = json.loads((tmp_path / f"spent{rank}").read_text())[-2 * one.steps :]
        spent = {name: sum(step[name] for step in steps) for name in PLANTED}
        seen = {name: line_of(one, "own", path, call) for name, call in PLANTED.items()}
        shares = {name: ms / sum(seen.values()) for name, ms in seen.items()}
        assert shares == pytest.approx({name: s / sum(spent.values()) for name, s in spent.items()}, abs=0.1)


@pytest.mark.parametrize(
    ("phase", "line", "least"),
    [
        ("own", "for _ in range(4000): x.copy_(x * 0.99 + 0.01)", 0.7),
        ("collective", "dist.all_reduce(torch.ones(1 << 22))", 0.9),
    ],
)
def test_work_after_the_update_and_a_collective_of_the_script_have_their_line(
    run: Run, script: Write, phase: str, line: str, least: float
) -> None:
    path = script(step=f"{STEP}\n{line}")
    for one in times_of(run, path):
        assert largest(one) == phase
        assert line_of(one, phase, path, line) > least * one.phases_ms[phase]


def test_a_loader_and_its_workers_are_a_phase_and_each_restart_is_a_longer_step(run: Run, script: Write) -> None:
    loader = """
from torch.utils.data import DataLoader
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 128
    def __getitem__(self, i): return torch.randn(64), i % 10
loader = DataLoader(Samples(), 32, num_workers=1)
"""
    epoch = "for x, y in loader:\n    loss = loss_of(m(x), y)\n    o.zero_grad()\n    loss.backward()\n    o.step()"
    of_ranks = [one.longer for one in times_of(run, script(PLAIN + loader, epoch))]
    assert {longer.period for longer in of_ranks if longer is not None} == {4}
    # The rank that has its workers first waits for the other one.
    late = [longer for longer in of_ranks if longer is not None and longer.phase == "workers"]
    assert late
    assert all(longer.line is not None and longer.line.startswith("train.py") for longer in late)


def test_each_batch_of_a_step_that_accumulates_counts(run: Run, script: Write) -> None:
    step = """
for part in range(4):
    x, y = next(batches)
    loss_of(m(x), y).backward()
o.step(); o.zero_grad()
"""
    slow = """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        for _ in range(30_000): pass
        return torch.randn(64), i % 10
batches = iter(torch.utils.data.DataLoader(Slow(), 32))
"""
    for one in times_of(run, script(PLAIN + slow, step)):
        assert largest(one) == "loader"


def test_a_function_that_trains_by_itself_is_named_within(run: Run, script: Write, tmp_path: Path) -> None:
    """As ``trainer.train()``, one line of the script has called all of it."""
    library = tmp_path / "dist-packages"
    library.mkdir()
    (library / "trainer.py").write_text(
        "def train(batch, m, loss_of, o):\n"
        "    for _ in range(200):\n"
        "        x, y = batch()\n"
        "        loss_of(m(x), y).backward()\n"
        "        o.step(); o.zero_grad()\n"
        "        for _ in range(4000): x.mul_(1.001)\n"
    )
    before = f"{PLAIN}\nimport sys; sys.path.append('{library}')\nimport trainer"
    for one in times_of(run, script(before, "trainer.train(batch, m, loss_of, o)", steps=1)):
        longest = max((line for line in one.lines if line.phase == "own"), key=lambda line: line.ms)
        assert longest.line == "trainer.py:6 train()"
