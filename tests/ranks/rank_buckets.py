"""Code inside a rank for test_bucket_layout.py."""

import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.gradients.cases import DDP_OPTIONS, SHAPES
from fixtures.gradients.in_rank.run import Probe
from fixtures.ranks.context import RankContext
from fixtures.ranks.wrapping import Wrapped, end_logging


def bucket_bytes(ctx: RankContext, *, option: str) -> dict[str, list[int]]:
    """Return the bucket sizes under a DDP option, after DDP has rebuilt the buckets and logged them."""
    ddp = DistributedDataParallel(Probe(SHAPES), **DDP_OPTIONS[option].arguments)
    for _ in range(5):
        ddp(*(torch.ones(shape) for shape in SHAPES)).backward()
    return {"bytes": Wrapped(module=ddp, called=ddp).bucket_bytes()}


def steps_without_logging(ctx: RankContext, *, option: str) -> dict[str, object]:
    """Train four steps, then three more without DDP's logger, and the same with another module that always logs."""
    arguments = DDP_OPTIONS[option].arguments
    ends, logs = (DistributedDataParallel(Probe(SHAPES), **arguments) for _ in range(2))
    logged = []
    for step in range(7):
        if step in (2, 4):  # without effect before the fourth
            end_logging(ends, step)
        for ddp in (ends, logs):
            ddp.zero_grad()
            ddp(*(torch.full(shape, float(step + ctx.rank)) for shape in SHAPES)).backward()
        logged.append([ddp._get_ddp_logging_data()["iteration"] for ddp in (ends, logs)])
    same = all(
        torch.equal(*pair) for pair in zip(*([p.grad for p in d.parameters()] for d in (ends, logs)), strict=True)
    )
    sizes = [Wrapped(module=ddp, called=ddp).bucket_bytes() for ddp in (ends, logs)]
    return {"iterations": logged, "same gradients": same, "bytes": sizes}
