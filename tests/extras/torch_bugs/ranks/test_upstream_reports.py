"""Each script of studies/torch_bugs shows its bug in the installed torch."""

from pkgutil import iter_modules

import pytest

from fixtures.extras.torch_bugs.upstream_bugs import UPSTREAM_BUGS
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import torch_version
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from studies import torch_bugs

NAMES = sorted(module.name for module in iter_modules(torch_bugs.__path__))
TWO = World(backend="gloo", size=2)


@pytest.mark.parametrize("report", NAMES)
def test_a_report_shows_its_bug(two_ranks: RankSets, report: str) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    bug = UPSTREAM_BUGS[report]
    shown = any(ranks.run(TWO, "tests.extras.torch_bugs.ranks.rank_reports:shows", {"report": report}, doing=report))
    assert shown == bug.there(torch_version())
