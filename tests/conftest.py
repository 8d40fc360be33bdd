"""Live ranks that several test files use."""

from collections.abc import Iterator

import pytest

from fixtures.ranks.rank_sets import RankSets


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[RankSets]:
    """One launch of two ranks on the CPU, for the tests of one file."""
    sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60, say=lambda text: None)
    yield sets
    sets.close()
