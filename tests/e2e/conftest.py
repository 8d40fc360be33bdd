"""Runs in processes of their own, of which whatever is left is removed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.launch import reaper
from tests.e2e.perf_process import Perf, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a run; whatever it leaves is removed after the test has seen it."""
    started: list[Perf] = []

    def start(*options: str) -> Perf:
        started.append(Perf(*options, output=tmp_path / "output"))
        return started[-1]

    yield start
    for perf in started:
        reaper.end(perf.processes)
        perf.process.wait()
        shutil.rmtree(perf.folder)
