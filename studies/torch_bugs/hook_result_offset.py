"""DDP reads a hook's result from the beginning of its storage.

A hook that returns a view which begins further on, as of one message for several things, has its gradients shifted:
what stands before the view becomes the first gradients. Nothing is said.

Expected: `storage_offset()` counts, or an error names it.

Instead: return a copy (`.clone()`).
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def done(tensor):
    future = torch.futures.Future()
    future.set_result(tensor)
    return future


def bug(rank: int) -> bool:
    ddp = DistributedDataParallel(Given((4,)))

    def hook(state, bucket):
        sent = torch.cat([torch.tensor([7.0, 8.0, 9.0]), bucket.buffer()])
        return done(sent[3:])

    ddp.register_comm_hook(None, hook)
    ddp(torch.ones(4)).backward()
    return ddp.module.weights[0].grad.tolist() == [7, 8, 9, 1]  # the hook returned ones


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
