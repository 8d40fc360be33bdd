"""GradBucket.gradients() is empty for a sparse gradient, so PowerSGD leaves it local.

The bucket of a sparse gradient has one parameter and no gradients. From the step on in which PowerSGD compresses, the
embedding's gradient stays that of the rank, undivided: ranks drift apart without an error. Every hook that walks
`gradients()` does the same.

Expected: The mean of the ranks, as before `start_powerSGD_iter`, or an error.

Instead: `Embedding(sparse=False)`.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel


def bug(rank: int) -> bool:
    table = nn.Embedding(4, 3, sparse=True)
    ddp = DistributedDataParallel(table)
    ddp.register_comm_hook(powersgd.PowerSGDState(None, start_powerSGD_iter=2), powersgd.powerSGD_hook)
    for _ in range(4):
        ddp.zero_grad()
        ddp(torch.tensor([rank, 2])).sum().backward()
    got = table.weight.grad.to_dense()[:, 0].tolist()  # the mean is [0.5, 0.5, 1, 0]
    return got != [0.5, 0.5, 1.0, 0.0]


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
