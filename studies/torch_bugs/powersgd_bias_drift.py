"""PowerSGD's error feedback piles up for what it does not compress.

The memory is the hook's input less its output also for vectors, which are not compressed: local minus mean, summed
over all steps. It grows without bound where ranks differ, and in a 16-bit wrapper the gradient drowns in its
roundings: a bias whose mean is 1 and whose ranks have 6 and -4 is delivered far off after 300 steps in bfloat16.

Expected: Uncompressed tensors have no memory.

Instead: `use_error_feedback=False`, or no wrapper.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def bug(rank: int) -> bool:
    ddp = DistributedDataParallel(Given((8,), (16, 16)))
    state = powersgd.PowerSGDState(None, start_powerSGD_iter=2)
    ddp.register_comm_hook(state, default_hooks.bf16_compress_wrapper(powersgd.powerSGD_hook))
    g = torch.Generator().manual_seed(rank)
    for _ in range(300):
        ddp.zero_grad()
        ddp(torch.full((8,), 6.0 if rank == 0 else -4.0), torch.randn(16, 16, generator=g)).backward()
    return float((ddp.module.weights[0].grad - 1).abs().max()) > 0.5


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
