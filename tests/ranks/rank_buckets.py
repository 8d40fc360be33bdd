"""Code inside a rank for test_bucket_options.py."""

import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.gradients.cases.ddp_options import DDP_OPTIONS
from fixtures.gradients.cases.injected import SHAPES
from fixtures.gradients.checks.probe import Probe
from fixtures.ranks.context import RankContext
from fixtures.ranks.wrapping import Wrapped


def bucket_bytes(ctx: RankContext, *, option: str) -> dict[str, list[int]]:
    """Return the bucket sizes under a DDP option, after DDP has rebuilt the buckets and logged them."""
    ddp = DistributedDataParallel(Probe(SHAPES), **DDP_OPTIONS[option].arguments)
    for _ in range(5):
        ddp(*(torch.ones(shape) for shape in SHAPES)).backward()
    return {"bytes": Wrapped(module=ddp, called=ddp).bucket_bytes()}
