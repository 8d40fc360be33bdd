"""Functions for ranks behind a link."""

import socket
import time

import torch
from torch import distributed

from fixtures.ranks.context import RankContext


def interfaces(ctx: RankContext) -> list[str]:
    """The network interfaces that this rank sees."""
    return [name for _, name in socket.if_nameindex()]


def shortest_all_reduce_s(ctx: RankContext, byte_count: int, repeats: int) -> float:
    """The shortest of some all-reduces of so many bytes."""
    values = torch.ones(byte_count // 4)
    times = []
    for _ in range(repeats):
        distributed.barrier()
        began = time.monotonic()
        distributed.all_reduce(values)
        times.append(time.monotonic() - began)
    return min(times)
