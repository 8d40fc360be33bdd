"""Inside a rank: the buckets of the gradient tests."""

import torch
from torch.nn.parallel import DistributedDataParallel

from fixtures.matrix.ddp_options import DDP_OPTIONS
from fixtures.matrix.gradients import SHAPES
from fixtures.ranks.equivalence.probe import Probe
from fixtures.ranks.rank import Here
from fixtures.ranks.wrapping import Wrapped


def bucket_bytes(here: Here, *, option: str) -> dict[str, list[int]]:
    """The sizes under an option of DDP, once buckets have been laid out anew and DDP has noted it."""
    ddp = DistributedDataParallel(Probe(SHAPES), **DDP_OPTIONS[option].arguments)
    for _ in range(5):
        ddp(*(torch.ones(shape) for shape in SHAPES)).backward()
    return {"bytes": Wrapped(module=ddp).bucket_bytes()}
