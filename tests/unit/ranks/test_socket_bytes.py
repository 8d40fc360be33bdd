"""Bytes that the kernel counts on open sockets; over live ranks: tests/ranks/test_wire_bytes.py."""

import os
import socket
from collections.abc import Iterator

import pytest

from fixtures.ranks.socket_bytes import sent_bytes


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


def test_bytes_of_a_connection_are_counted() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as other,
    ):
        before = sent_bytes()
        client.sendall(bytes(5000))
        received = 0
        while received < 5000:
            received += len(other.recv(5000))
        assert sent_bytes() - before == 5000
