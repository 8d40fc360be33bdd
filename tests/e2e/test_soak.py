"""Runs whose session or a rank gets a signal at a random moment: nothing is left, no record is torn."""

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.perf_process import Perf, Start, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3000)]

KILLS_A_TEST, TESTS = 5, 10
# A busy machine starts a run, and ends it, within.
START_S, LATEST_S, END_S = 120.0, 20.0, 300.0
OPTIONS = (
    *("-k", "test_throughput and (ddp_default or single)", "--launches=2", "--warmup=2", "--steps=2"),
    *("--benchmark-save=soak", "--explain=none", "-p", "tests.quiet_machine"),
)
# Of the session: a run that has ended before is right; SIGINT and SIGTERM interrupt it. Of a rank: one test fails.
ENDS = {"session": {0, int(pytest.ExitCode.INTERRUPTED), -signal.SIGKILL}, "rank": {0, 1}}


def killed(perf: Perf, draw: random.Random) -> str:
    """Send a signal to the session or to one of its ranks at a random moment. Returns the kind of the victim."""
    number, victim = draw.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL)), draw.choice(list(ENDS))
    if draw.random() < 2 / 3:  # else while Python or ranks start, mostly
        wait_until(
            lambda: max(perf.steps(), default=-1) >= 0 or perf.process.poll() is not None, perf, within_s=START_S
        )
    try:
        perf.process.wait(draw.uniform(0, LATEST_S / (1 + bool(perf.steps()))))
    except subprocess.TimeoutExpired:
        ranks = perf.ranks()
        print(f"{number.name} to the {victim if ranks else 'session'}, of {len(ranks)} ranks, at {perf.steps()}")
        if victim == "session" or not ranks:
            os.killpg(perf.process.pid, number) if number is signal.SIGINT else perf.process.send_signal(number)
            return "session"
        os.kill(draw.choice(ranks), number)
    return victim


def records(storage: Path) -> list[str]:
    """The names of the records in the storage, each of which is whole."""
    return [file.name for file in sorted(storage.rglob("*.json")) if json.loads(file.read_text())["benchmarks"]]


@pytest.mark.parametrize("first", range(0, KILLS_A_TEST * TESTS, KILLS_A_TEST))
def test_a_kill_at_any_moment_leaves_nothing_and_the_next_run_is_right(
    start: Start,
    tmp_path: Path,
    first: int,
) -> None:
    storage = tmp_path / "storage"
    for seed in range(first, first + KILLS_A_TEST):
        perf = start(*OPTIONS)
        victim = killed(perf, random.Random(seed))
        code = perf.process.wait(END_S)
        said = perf.output.read_text()
        # Else Python or another plugin ended by itself, before the suite was imported.
        if "test session starts" in said:
            assert code in ENDS[victim], f"seed {seed}, exit code {code}\n{said}"
            assert "Traceback (most recent call last)" not in said, f"seed {seed}\n{said}"
        wait_until(lambda: not perf.left(), perf, within_s=15)  # noqa: B023  # called before the next one
        records(storage)
    before = records(storage) if storage.exists() else []
    perf = start(*OPTIONS)
    assert perf.process.wait(END_S) == 0, perf.output.read_text()
    wait_until(lambda: not perf.left(), perf, within_s=15)
    assert len(records(storage)) == len(before) + 1
    assert list(storage.rglob("*.part")) == []
