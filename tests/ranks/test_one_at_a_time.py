"""Runs on one machine measure one at a time: the second waits for its turn and names the run that measures."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from fixtures.launch import session
from tests.command_line import ROOT

pytestmark = pytest.mark.timeout(60)  # a test whose run waits for ever names itself

# A real run may measure on this machine.
OWN = f"\0ddp-perf measures {os.getpid()}"
RUN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from fixtures.launch import session
session._TURN = {OWN!r}
with session.sole_use_of_the_machine(print):
    print("mine", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def own_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_TURN", OWN)


class InAThread:
    """A run in a thread of this process.

    lines: the lines that it printed.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waits, self.measures = Event(), Event()
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with session.sole_use_of_the_machine(self._on_wait):
            self.measures.set()

    def _on_wait(self, line: str) -> None:
        self.lines.append(line)
        self.waits.set()


@contextmanager
def another_run() -> Iterator[subprocess.Popen[str]]:
    """A process that measures until it is killed."""
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "mine\n"
        try:
            yield run
        finally:
            run.kill()


def test_a_second_run_waits_for_the_first_and_names_it_once() -> None:
    with another_run() as first:
        second = InAThread()
        assert second.waits.wait(10)
        assert not second.measures.wait(1.2)
    second.thread.join()
    assert second.lines == [f"waiting: another ddp-perf run measures on this machine, pid {first.pid}"]


def test_a_run_that_was_killed_while_others_wait_holds_nobody_up() -> None:
    with another_run() as first:
        later = [InAThread() for _ in range(3)]
        assert all(run.waits.wait(10) for run in later)
        first.kill()
        for run in later:
            run.thread.join()
    assert all(run.measures.is_set() for run in later)
