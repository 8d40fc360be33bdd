"""Code inside a rank for test_ddp_settings.py: the check of a config on a DDP that was built for it, or for another."""

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from fixtures.launch.protocol import CannotRun
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.context import RankContext
from fixtures.ranks.ddp_settings import check_ddp_settings, ddp_settings, unused_vary
from fixtures.ranks.wrapping import wrap


class _Model(nn.Module):
    """Four layers of 1 MB; of two more of 36 MB together the forward pass uses none."""

    def __init__(self, *, unused: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))
        self.unused = nn.ModuleList(nn.Linear(512, 9000) for _ in range(2 * unused))

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = layer(inputs).tanh()
        return inputs


def looked_at(ctx: RankContext) -> tuple[bool, list[str]]:
    """Whether the used parameters vary, and what the look has changed."""

    class Routed(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.experts = nn.BatchNorm1d(4), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.register_buffer("seen", torch.zeros(0, 4))

        def forward(self, inputs: Tensor) -> Tensor:
            self.seen = torch.cat([self.seen, inputs.detach()])[-6:]
            outputs: Tensor = self.experts[int(inputs[0, 0] > 1)](self.norm(inputs))
            return outputs

    def state() -> dict[str, object]:
        buffers = {name: buffer.tolist() for name, buffer in model.named_buffers()}
        drawn = {"torch": torch.get_rng_state().tolist(), "random": random.getstate(), "numpy": np.random.rand()}
        return buffers | drawn | {"gradients": [name for name, p in model.named_parameters() if p.grad is not None]}

    def sample() -> tuple[Tensor, ...]:
        return (torch.randn(4) + random.random() + np.random.rand(),)

    def loss(module: nn.Module, inputs: Tensor) -> Tensor:
        total: Tensor = module(inputs).sum()
        return total

    model = Routed()
    workload = replace(WORKLOADS["vit_tiny"], name="routed_here", batch_size=2, sample=sample, loss=loss)
    np.random.seed(3)
    before = state()
    np.random.seed(3)
    varies = unused_vary(ctx, workload, model)
    after = state()
    return varies, [name for name, value in before.items() if after[name] != value]


# Any: fields of a config.
def checked(
    ctx: RankContext, *, config: str, built_as: dict[str, Any], unused: bool = False, dtypes: int = 1
) -> dict[str, Any]:
    """Train some steps under ``config``, with the fields of ``built_as`` changed; then check for ``config``.

    Returns the bucket sizes in bytes, and the error of the check. dtypes: 2 has every second layer in float64.
    """
    built, workload = replace(CONFIGS[config], **built_as), replace(WORKLOADS["vit_tiny"], find_unused_parameters=True)
    torch.manual_seed(0)
    model = _Model(unused=unused)
    if dtypes == 2:
        for layer in list(model.layers)[::2]:
            layer.weight.data = layer.weight.data.double()
            layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0].double(),))
            layer.register_forward_hook(lambda layer, inputs, output: output.float())
            layer.bias.data = layer.bias.data.double()
    with ddp_settings(built):
        wrapped = wrap(model, workload, built, parse_world("2cpu"), ctx.device)
        for _ in range(4):
            wrapped.module(torch.ones(2, 512)).sum().backward()
    error: str | None = None
    try:
        check_ddp_settings(CONFIGS[config], wrapped, ctx.device)
    except (RuntimeError, CannotRun) as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"bytes": wrapped.bucket_bytes(), "error": error}


def process_wide(ctx: RankContext) -> dict[str, Any]:
    """Return what DDP reads from the process."""
    return {
        "first": distributed._DEFAULT_FIRST_BUCKET_BYTES,  # type: ignore[attr-defined]  # not in __all__
        "variables": {name: value for name, value in os.environ.items() if name.startswith("DDP_")},
    }
