"""The set of ranks that the tests of live ranks share."""

import pytest

from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.worlds import INTERCONNECTS


@pytest.fixture
def ranks(two_ranks: RankSets) -> RankSet:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    return ranks
