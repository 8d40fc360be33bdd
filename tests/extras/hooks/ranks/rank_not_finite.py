"""Code inside a rank for test_not_finite.py."""

import torch

from fixtures.gradients.in_rank.run import ProbeRun
from fixtures.ranks.context import RankContext

_SHAPE = (96, 64)


def not_finite(ctx: RankContext, *, hook: str, value: float) -> dict[str, list[float]]:
    """Have rank 1 give one element this value in one step. Return the result's finite share in it and in later steps.

    All steps compress.
    """
    run = ProbeRun(ctx, hook, shapes=[_SHAPE]).wrap()
    generator = torch.Generator().manual_seed(ctx.rank)
    shares = []
    for step in range(run.hook.first_step + 5):
        given = torch.randn(_SHAPE, generator=generator)
        if step == run.hook.first_step + 1 and ctx.rank == 1:
            given[3, 5] = value
        out = run.step([given])
        if step > run.hook.first_step:
            shares.append(float(out.isfinite().float().mean()))
    return {"finite": shares}
