"""Runs on one machine measure one at a time: the second waits for its turn and names the run that measures."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import pytest

from fixtures.launch import turns
from tests.command_line import ROOT

pytestmark = pytest.mark.timeout(60)  # a test whose run waits for ever names itself

# The end of the lock's names: a real run may measure on this machine.
OWN = f" {os.getpid()}"
RUN = f"""
import os, sys
os.chdir(sys.argv[1])
sys.path.insert(0, {str(ROOT)!r})
from tests.ranks.test_one_at_a_time import own_names, turns
vars(turns).update(own_names(sys.argv[2]))
with turns.sole_use_of_the_machine(lambda line: print(line, flush=True)):
    print("mine", flush=True)
    with open("order", "a") as file:
        print(os.getpid(), file=file)
    input()
"""


# Any: names and a pattern.
def own_names(own: str) -> dict[str, Any]:
    """The values of ``turns`` for a lock with this end of its names."""
    measures, waits, number = turns._MEASURES, turns._WAITS, turns._NUMBER
    ours = re.compile(number.pattern.replace(waits, waits + own), number.flags)
    return {"_MEASURES": measures + own, "_WAITS": waits + own, "_NUMBER": ours}


@pytest.fixture(autouse=True)
def own_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in own_names(OWN).items():
        monkeypatch.setattr(turns, name, value)


class Run:
    """A process that waits for its turn and measures until ``end``."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", RUN, str(folder), OWN]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self) -> str:
        """Return the next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def measures(self) -> Self:
        assert self.says() == "mine"
        return self

    def waits(self) -> Self:
        assert self.says().startswith("waiting: ")
        return self

    def end(self) -> None:
        """Have the process stop measuring."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.close()


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
        with turns.sole_use_of_the_machine(self._on_wait):
            self.measures.set()

    def _on_wait(self, line: str) -> None:
        self.lines.append(line)
        self.waits.set()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Run]]:
    runs: list[Run] = []

    def start() -> Run:
        runs.append(Run(tmp_path))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.wait()
        for pipe in (run.process.stdin, run.process.stdout):
            assert pipe is not None
            pipe.close()


def silent(line: str) -> None:
    pass


def test_a_second_run_waits_for_the_first_and_says_so_once() -> None:
    with turns.sole_use_of_the_machine(silent):
        second = InAThread()
        assert second.waits.wait(10)
        assert not second.measures.wait(1.2)
    second.thread.join()
    assert second.measures.is_set()
    assert len(second.lines) == 1


def test_it_says_which_run_measures_where_and_since_when(start: Callable[[], Run], tmp_path: Path) -> None:
    first = start().measures()
    says = rf"waiting: another ddp-perf run measures on this machine, pid {first.process.pid} in {tmp_path}, "
    assert re.fullmatch(says + r"started \d\d:\d\d:\d\d \(\d+ s ago\)", start().says())
    assert re.fullmatch(says + r"started .* ago\); 1 run is ahead of this one", start().says())


def test_runs_measure_in_the_order_in_which_they_came(start: Callable[[], Run], tmp_path: Path) -> None:
    first = start().measures()
    later = [start().waits() for _ in range(4)]
    for run in (*reversed(later), first):
        run.end()
    for run in later:
        assert run.process.wait() == 0
    assert (tmp_path / "order").read_text().split() == [str(run.process.pid) for run in (first, *later)]


def test_a_run_that_was_killed_holds_nobody_up(start: Callable[[], Run]) -> None:
    first = start().measures()
    second = start().waits()
    third = InAThread()
    assert third.waits.wait(10)
    second.process.kill()
    first.process.kill()
    third.thread.join()
    assert third.measures.is_set()


def test_a_run_that_is_stopped_while_it_waits_is_overtaken(
    start: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_TURN_S", 0.3)
    first = start().measures()
    second = start().waits()
    third = InAThread()
    assert third.waits.wait(10)
    os.kill(second.process.pid, signal.SIGSTOP)
    assert not third.measures.wait(1.2)
    first.end()
    third.thread.join()
    os.kill(second.process.pid, signal.SIGCONT)
    while (line := second.says()).startswith("waiting: "):
        pass
    assert line == "mine"


def test_a_run_of_an_older_version_which_does_not_listen_is_waited_for() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as older:
        older.bind(f"\0ddp-perf measures{OWN}")
        second = InAThread()
        assert second.waits.wait(10)
        assert not second.measures.wait(0.7)
    second.thread.join()
    assert second.lines == ["waiting: another ddp-perf run measures on this machine, process unknown"]


def test_a_run_of_another_user_is_named_by_user() -> None:
    """/proc does not show the folder of another user's process; here because there is no such process."""
    assert turns._process(2**22 + 1, 12345) == f"pid {2**22 + 1} of user 12345"
    assert turns._process(0, 65534) == "in another container"
