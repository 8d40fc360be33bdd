"""Code inside a rank for test_suite_hooks.py."""

import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.gradients.checks.probe import Probe
from fixtures.matrix.hooks import find_hook
from fixtures.ranks.context import RankContext
from fixtures.ranks.wrapping import register

_SHAPE = (96, 64)


def not_finite(ctx: RankContext, *, hook: str, value: float) -> dict[str, list[float]]:
    """Have rank 1 give one element this value in one step. Return the result's finite share in it and in later steps.

    All steps compress.
    """
    entry = find_hook(hook)
    probe = Probe([_SHAPE])
    ddp = DistributedDataParallel(probe)
    register(ddp, entry)
    generator = torch.Generator().manual_seed(ctx.rank)
    shares = []
    for step in range(entry.first_step + 5):
        given = torch.randn(_SHAPE, generator=generator)
        if step == entry.first_step + 1 and ctx.rank == 1:
            given[3, 5] = value
        ddp.zero_grad()
        ddp(given).backward()
        if step > entry.first_step:
            shares.append(float(probe.gradients()[0].isfinite().float().mean()))
    return {"finite": shares}
