"""Inside a rank: the bytes that cross loopback in a step."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.hooks import HOOKS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.rank import Here
from fixtures.ranks.wrapping import wrap

_WARMUP, _STEPS, _REPEATS = 5, 4, 6


class Products(nn.Module):
    """Two matrices of 4 MiB, and a buffer, which DDP broadcasts before each forward pass."""

    held: Tensor

    def __init__(self, buffer_bytes: int) -> None:
        super().__init__()
        self.first = nn.Linear(1024, 1024, bias=False)
        self.second = nn.Linear(1024, 1024, bias=False)
        self.register_buffer("held", torch.zeros(buffer_bytes // 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)).square().mean()  # type: ignore[no-any-return]  # nn.Module.__call__ is Any


def bytes_of_a_step(here: Here, *, config: str, world: str, buffer_bytes: int) -> dict[str, Any]:
    """``predicted`` and, from the transmit counter of ``lo``, ``counted``: the least of some repeats, since other
    programs use loopback too."""
    torch.manual_seed(0)
    wrapped = wrap(Products(buffer_bytes), WORKLOADS["vit_tiny"], CONFIGS[config], parse_world(world), here.device)
    _train(wrapped.module, _WARMUP)
    counted = []
    for _ in range(_REPEATS):
        distributed.barrier()
        before = _sent()
        _train(wrapped.module, _STEPS)
        distributed.barrier()
        counted.append((_sent() - before) / _STEPS)
    return {"predicted": wrapped.wire_bytes(HOOKS[CONFIGS[config].hook], parse_world(world)), "counted": min(counted)}


def _train(module: nn.Module, steps: int) -> None:
    for _ in range(steps):
        module.zero_grad()
        module(torch.randn(2, 1024)).backward()


def _sent() -> int:
    """The ninth number behind an interface's name is what it has transmitted, in bytes."""
    (line,) = (line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[8])
