"""Each report of docs/upstream has a script that shows its bug in the installed torch."""

import pytest

from fixtures.extras.torch_bugs.upstream_bugs import UPSTREAM_BUGS
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.torch_version import torch_version
from fixtures.matrix.worlds import World
from tests.extras.torch_bugs.ranks.rank_reports import REPORTS

NAMES = sorted(file.stem for file in REPORTS.glob("*.md") if file.stem != "README")
TWO = World(backend="gloo", size=2)


@pytest.mark.parametrize("report", NAMES)
def test_a_report_shows_its_bug(two_ranks: RankSets, report: str) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    bug = UPSTREAM_BUGS[report]
    shown = any(ranks.run(TWO, "tests.extras.torch_bugs.ranks.rank_reports:shows", {"report": report}, doing=report))
    assert shown == bug.there(torch_version())


def test_a_bug_without_an_issue_has_a_report_or_a_reason() -> None:
    text = (REPORTS / "README.md").read_text()
    assert [name for name in UPSTREAM_BUGS if f"`{name}`" not in text and name not in NAMES] == []
