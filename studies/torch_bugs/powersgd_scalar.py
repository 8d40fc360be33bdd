"""PowerSGD raises IndexError for a parameter without dimensions.

PowerSGD takes `shape[0]` of each gradient.

Expected: The parameter is not compressed.

Instead: the shape (1,).
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
    ddp = DistributedDataParallel(Given((), (16, 16)))
    ddp.register_comm_hook(powersgd.PowerSGDState(None, start_powerSGD_iter=2), powersgd.powerSGD_hook)
    try:
        for _ in range(3):
            ddp(torch.tensor(1.0), torch.randn(16, 16)).backward()
    except (IndexError, RuntimeError) as error:
        return "tuple index out of range" in str(error)
    return False


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
