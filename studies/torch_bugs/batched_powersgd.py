"""batched_powerSGD_hook raises AssertionError in the first step that compresses.

`_orthogonalize` asserts three dimensions, and `batched_powerSGD_hook` hands it two. The assertion has no message.

Expected: The hook compresses.

Instead: `powerSGD_hook`.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel


def bug(rank: int) -> bool:
    ddp = DistributedDataParallel(nn.Linear(16, 16))
    ddp.register_comm_hook(powersgd.PowerSGDState(None, start_powerSGD_iter=2), powersgd.batched_powerSGD_hook)
    try:
        for _ in range(3):
            ddp(torch.randn(4, 16)).sum().backward()
    except (AssertionError, RuntimeError) as error:
        return "AssertionError" in repr(error) or isinstance(error, AssertionError)
    return False


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
