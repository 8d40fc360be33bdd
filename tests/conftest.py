"""Layers of tests by folder, and live ranks that several test files use."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.launch.rank_sets import RankSets

# Processes inherit an ignored signal. A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP: the
# runs that tests interrupt would ignore them too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # a handler is not inherited: this process still lives on


# Folders of tests that start processes or simulate many runs; the others are `pytest tests -m "not slow"`.
SLOW = ("e2e", "mutants", "ranks", "studies")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its folder."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in SLOW:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def three_ranks() -> Iterator[RankSets]:
    """One launch of three ranks on the CPU, for the tests of all files."""
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=60, on_message=lambda text: None)
    yield sets
    sets.close()


@pytest.fixture(scope="session")
def two_ranks(three_ranks: RankSets) -> RankSets:
    """The same, for tests in worlds of one and two; the third rank is idle meanwhile."""
    return three_ranks
