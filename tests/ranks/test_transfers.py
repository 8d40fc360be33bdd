"""Bare transfers timed in live ranks over gloo."""

import pytest

from fixtures.launch.protocol import TransferRequest
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.transfers import KINDS
from fixtures.matrix.worlds import parse_world


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.copy])
def test_every_kind_delivers_and_takes_its_time(ranks: RankSet, kind: str) -> None:
    """The rank checks what arrives."""
    for size, message_bytes in (("8b", 8), ("1mb", 2**20)):
        request = TransferRequest(transfer=f"{kind}_{size}", steps=3, warmup=1)
        results = ranks.ask(parse_world("2cpu"), request, doing=kind)
        assert [len(result) for result in results] == [3, 3]
        assert min(time for result in results for time in result) > message_bytes / 100e9  # no memory is that fast
