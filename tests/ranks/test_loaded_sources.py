"""A rank knows the files of the user that it has loaded, as they were then."""

from pathlib import Path

from fixtures.launch.own_sources import content_hash
from fixtures.launch.protocol import SourcesRequest
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world
from tests.ranks import rank_faults
from tests.ranks.asking import called


def test_each_rank_has_the_module_that_it_imported(ranks: RankSet) -> None:
    called(ranks, "rank_faults:at_start")
    file = Path(rank_faults.__file__)
    for loaded in ranks.ask(parse_world("2cpu"), SourcesRequest(), doing="sources"):
        assert loaded[str(file)] == content_hash(file)
        assert not any("site-packages" in name or "/fixtures/" in name for name in loaded)
