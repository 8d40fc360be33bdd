"""Bare transfers timed in live ranks over gloo."""

import pytest

from fixtures.launch.protocol import TransferRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.transfers import KINDS
from fixtures.matrix.worlds import World


def test_a_launch_times_each_all_reduce(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    request = TransferRequest(transfer="all_reduce_4mb", steps=7, warmup=2)
    results = ranks.ask(World(backend="gloo", size=2), request, doing="all-reduce")
    assert [len(result) for result in results] == [7, 7]
    assert min(time for result in results for time in result) > 4e6 / 100e9  # no memory is that fast


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.copy])
def test_every_kind_delivers_and_takes_its_time(two_ranks: RankSets, kind: str) -> None:
    """The rank checks what arrives."""
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    for size in ("8b", "1mb"):
        request = TransferRequest(transfer=f"{kind}_{size}", steps=3, warmup=1)
        results = ranks.ask(World(backend="gloo", size=2), request, doing=kind)
        assert [len(result) for result in results] == [3, 3]
