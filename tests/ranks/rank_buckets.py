"""Code inside a rank for test_bucket_layout.py."""

import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.gradients.checks.ddp_options import DDP_OPTIONS, SHAPES
from fixtures.gradients.in_rank.probe import Probe
from fixtures.ranks.context import RankContext
from fixtures.ranks.wrapping import Wrapped


def bucket_bytes(ctx: RankContext, *, option: str) -> dict[str, list[int]]:
    """Return the bucket sizes under a DDP option, after DDP has rebuilt the buckets and logged them."""
    ddp = DistributedDataParallel(Probe(SHAPES), **DDP_OPTIONS[option].arguments)
    for _ in range(5):
        ddp(*(torch.ones(shape) for shape in SHAPES)).backward()
    return {"bytes": Wrapped(module=ddp, called=ddp).bucket_bytes()}
