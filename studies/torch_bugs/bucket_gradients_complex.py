"""GradBucket.gradients() of complex parameters covers the first half of the bucket.

The buffer of a bucket of complex parameters is their real view, twice as long. `gradients()` cuts it by the complex
numbers of elements, so a hook that walks it (PowerSGD, for one) sees the first half. The second half stays local and
undivided: ranks drift apart without an error.

Expected: Views of all of the buffer, or an error.

Instead: a hook that takes `bucket.buffer()`.
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
    ddp = DistributedDataParallel(Given((4, 4), dtype=torch.complex64))

    def hook(state, bucket):
        for gradient in bucket.gradients():
            dist.all_reduce(gradient)
            gradient /= 2
        return done(bucket.buffer())

    ddp.register_comm_hook(None, hook)
    ddp(torch.full((4, 4), rank + 1.0)).real.backward()
    got = ddp.module.weights[0].grad.real.flatten()
    return got.unique().tolist() != [1.5]  # the mean of 1 and 2


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
