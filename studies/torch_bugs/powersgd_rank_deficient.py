"""PowerSGD of rank 2 is far off for gradients of rank 1.

Up to rank 2 (in 16 bits at any rank) PowerSGD orthogonalises by Gram-Schmidt, once. Of two parallel columns the
second becomes one of rounding errors that is not orthogonal to the first. A gradient of rank 1, as of one sample,
fits into rank 1 and 3 exactly, and is off by up to its own size in rank 2. Small batches have such gradients.
Orthogonalising twice repairs it.

Expected: An error of rounding.

Instead: rank 1, or 3 and more in fp32.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
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
    errors = []
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        gradient = torch.randn(32, 1, generator=g) @ torch.randn(1, 24, generator=g)
        ddp = DistributedDataParallel(Given((32, 24)))
        options = {"matrix_approximation_rank": 2, "start_powerSGD_iter": 2, "random_seed": seed}
        ddp.register_comm_hook(powersgd.PowerSGDState(None, **options), powersgd.powerSGD_hook)
        for _ in range(3):
            ddp.zero_grad()
            ddp(gradient * (0.25, 1.75)[rank]).backward()
        errors.append(float((ddp.module.weights[0].grad - gradient).norm() / gradient.norm()))
    return max(errors) > 0.1


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
