"""The kinds of links that a record names."""

import pytest

from fixtures.machine.gpu_links import Topology
from fixtures.records.quantities import links_of
from fixtures.records.schema import EnvironmentRecord


@pytest.mark.parametrize(
    ("links", "kinds"),
    [("4 x NV4, 24 x SYS", {"NV4", "SYS"}), ("", set()), (" ", set()), ("1 x NV18,  ", {"NV18"})],
)
def test_kinds_of_links_are_read_where_there_are_some(links: str, kinds: set[str]) -> None:
    assert links_of(EnvironmentRecord(topology=Topology(links=links))) == kinds
