"""A run of the suite in a process of its own, and all traces of it on the machine."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.launch import reaper
from fixtures.launch.channel import Heartbeat
from tests.command_line import ALONE

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")
PYTEST_PERF = (sys.executable, "-m", "pytest", "perf", "-p", "no:cacheprovider", "-p", "tests.run_of_a_test", *ALONE)


class Perf:
    """A run of ``pytest perf``, alone in a session like a job of a terminal, with a TMPDIR of its own."""

    # On every process that it starts, the guard and the resource tracker too; ranks carry guard.MARKER as well.
    MARKER = "TEST_NOTHING_LEFT_BEHIND"

    def __init__(self, *options: str, output: Path) -> None:
        self._marker = f"{self.MARKER}={uuid.uuid4().hex}".encode()
        self._shared_memory = set(SHARED_MEMORY.iterdir())
        self.folder = Path(tempfile.mkdtemp(prefix="left-"))  # short: the names of sockets below it are limited
        self.output = output
        name, _, value = self._marker.decode().partition("=")
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [*PYTEST_PERF, f"--benchmark-storage={output.parent / 'storage'}", *options],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1", name: value},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def processes(self) -> dict[int, list[bytes]]:
        """Every live process it has started, itself included, with its environment."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                environment = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdecimal() else []
                if self._marker in environment:
                    found[int(entry.name)] = environment
        return found

    def ranks(self) -> list[int]:
        """Its ranks and their loaders' workers."""
        return [pid for pid, environment in self.processes().items() if reaper.MARKER.encode() in _names(environment)]

    def steps(self) -> list[int]:
        """The step that rank 0 of each launch has reached."""
        pages = [page for page in self.folder.glob("ddp-perf-*/*/heartbeat") if page.stat().st_size]
        return [Heartbeat(page, 2).read(0).step for page in pages]

    def left(self) -> list[str]:
        """The traces of the run other than its output."""
        new = set(SHARED_MEMORY.iterdir()) - self._shared_memory
        return [
            *(f"process {pid}" for pid in self.processes()),
            *(str(path) for path in self.folder.iterdir()),
            *(str(path) for path in new - _in_use(new)),
        ]


def _names(environment: list[bytes]) -> set[bytes]:
    return {variable.partition(b"=")[0] for variable in environment}


def _in_use(files: set[Path]) -> set[Path]:
    """Those of these files that a live process has mapped: another's, for ours are gone."""
    used: set[Path] = set()
    for maps in Path("/proc").glob("[0-9]*/maps") if files else ():
        with contextlib.suppress(OSError):
            used |= {file for file in files if str(file) in maps.read_text()}
    return used


def wait_until(event: Callable[[], bool], perf: Perf, *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not event():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s; left: {perf.left()}\n{perf.output.read_text()}")
        time.sleep(0.05)


Start = Callable[..., Perf]
