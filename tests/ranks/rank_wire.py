"""Code inside a rank for test_wire_bytes.py: the bytes that all ranks send in a step."""

from typing import Any

import torch
from torch import Tensor, nn

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.context import RankContext
from fixtures.ranks.counters import counted_bytes
from fixtures.ranks.wrapping import wrap

_WARMUP, _STEPS = 5, 4


class Products(nn.Module):
    """Model with two matrices of 4 MiB, and a buffer, which DDP broadcasts before each forward pass."""

    held: Tensor

    def __init__(self, buffer_bytes: int) -> None:
        super().__init__()
        self.first = nn.Linear(1024, 1024, bias=False)
        self.second = nn.Linear(1024, 1024, bias=False)
        self.register_buffer("held", torch.zeros(buffer_bytes // 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)).square().mean()  # type: ignore[no-any-return]  # nn.Module.__call__ is Any


def bytes_of_a_step(ctx: RankContext, *, config: str, world: str, buffer_bytes: int) -> dict[str, Any]:
    """Return the ``predicted`` bytes, and the bytes ``counted`` by the kernel on the ranks' sockets."""
    torch.manual_seed(0)
    wrapped = wrap(Products(buffer_bytes), WORKLOADS["vit_tiny"], CONFIGS[config], parse_world(world), ctx.device)
    _train(wrapped.module, _WARMUP)
    predicted = wrapped.wire_bytes(find_hook(CONFIGS[config].hook), parse_world(world))
    return {"predicted": predicted, "counted": counted_bytes(lambda: _train(wrapped.module, 1), steps=_STEPS)}


def _train(module: nn.Module, steps: int) -> None:
    for _ in range(steps):
        module.zero_grad()
        module(torch.randn(2, 1024)).backward()
