"""Hooks divide by all ranks under join(divide_by_initial_world_size=False).

DDP's own all-reduce divides by the ranks that still have data; with any hook, also `allreduce_hook`, the divisor
stays the number of all ranks. Hooks have no way to know who has joined.

Expected: The same result with and without `allreduce_hook`, or an error.

Instead: no hook, or `divide_by_initial_world_size=True`.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def bug(rank: int) -> bool:
    ddp = DistributedDataParallel(Given((4,)))
    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    with ddp.join(divide_by_initial_world_size=False):
        for _ in range(2 if rank == 0 else 1):
            ddp.zero_grad()
            ddp(torch.ones(4)).backward()
    return rank == 0 and ddp.module.weights[0].grad[0] == 0.5  # rank 0 alone has data: 1


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
