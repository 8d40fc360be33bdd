"""static_graph with several dtypes: no bucket is_last() in the first step, and all have index 0.

Gradients of several dtypes never share a bucket. Under `static_graph` the buckets of the first backward pass all have
index 0, and none of them is the last. A hook that acts at the last bucket hangs; one that keeps a memory by index
mixes two buckets up. From the second step on both are right.

Expected: Indices 0, 1, ... and a last bucket, as without static_graph.

Instead: no static_graph, or act from the second step on.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def done(tensor):
    future = torch.futures.Future()
    future.set_result(tensor)
    return future


def bug(rank: int) -> bool:
    module = nn.Module()
    module.single, module.double_ = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3).double())
    module.forward = lambda: module.single.sum() + module.double_.sum()
    ddp = DistributedDataParallel(module, static_graph=True)
    seen = []

    def hook(state, bucket):
        seen.append((bucket.index(), bucket.is_last()))
        return done(bucket.buffer())

    ddp.register_comm_hook(None, hook)
    ddp().backward()
    return seen == [(0, False), (0, False)]


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
