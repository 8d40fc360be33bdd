"""Bytes that the kernel counts on open sockets; over live ranks: tests/ranks/test_wire_bytes.py."""

import os
import socket
from collections.abc import Iterator

import pytest

from fixtures.ranks.counters import sent_bytes


@pytest.fixture
def short_timeout() -> Iterator[None]:
    """A timeout that a workload sets for the sockets it opens later."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.001)
    yield
    socket.setdefaulttimeout(before)


def test_counting_leaves_open_sockets_as_they_are(short_timeout: None) -> None:
    pair = socket.socketpair(socket.AF_UNIX)
    for end in pair:
        end.setblocking(True)
        sent_bytes()
        assert os.get_blocking(end.fileno())
    assert socket.getdefaulttimeout() == 0.001
    for end in pair:
        end.close()
