"""Live ranks that several test files use."""

import signal
from collections.abc import Iterator

import pytest

from fixtures.ranks.rank_sets import RankSets

# What a shell starts in the background ignores it, and so would every run that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[RankSets]:
    """One launch of two ranks on the CPU, for the tests of one file."""
    sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60, say=lambda text: None)
    yield sets
    sets.close()
