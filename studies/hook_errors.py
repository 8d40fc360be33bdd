"""What hooks leave out of the gradients of the tiny ViT, in a step and in the sum of 20: docs/studies/accuracy.md.

    python -m studies.hook_errors [RANKS]

Each step has new data on each rank, and the parameters stay. On the CPU over gloo.
"""

import os
import sys

import torch
from torch import Tensor, distributed
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import default_collate

from fixtures.matrix.hooks import find_hook
from fixtures.matrix.workloads import WORKLOADS
from fixtures.ranks.counters import counted_bytes
from fixtures.ranks.wrapping import register

HOOKS = ("bf16", "fp8_all_to_all", "powersgd_rank1", "powersgd_rank4")
STEPS = 20


def measured(rank: int, hook_name: str) -> list[float]:
    """Return the relative L2 error of the first and the last compressed step, and of the sum of all of them; and the
    megabytes that all ranks send in a step, by the kernel's count.
    """
    workload, hook = WORKLOADS["vit_tiny"], find_hook(hook_name)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(workload.model(), bucket_cap_mb=25)
    register(ddp, hook)
    torch.manual_seed(100 + rank)

    def gradients() -> Tensor:
        return torch.cat([p.grad.flatten() for p in ddp.parameters() if p.grad is not None])

    delivered, means = [], []
    for step in range(3 + STEPS):
        batch = default_collate([workload.sample() for _ in range(workload.batch_size)])
        ddp.zero_grad()
        with ddp.no_sync():
            workload.loss(ddp.module, *batch).backward()
        mean = gradients()
        distributed.all_reduce(mean)
        ddp.zero_grad()
        workload.loss(ddp, *batch).backward()
        if step >= 3:
            means.append(mean / distributed.get_world_size())
            delivered.append(gradients())
    pairs = [*zip(delivered, means, strict=True), (torch.stack(delivered).sum(0), torch.stack(means).sum(0))]
    errors = [float((out - mean).norm() / mean.norm()) for out, mean in pairs]
    megabytes = counted_bytes(lambda: workload.loss(ddp, *batch).backward(), steps=STEPS) / 1e6
    return [errors[0], errors[-2], errors[-1], megabytes]


def main(rank: int, ranks: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    for hook in HOOKS:
        errors = measured(rank, hook)[:3]
        if rank == 0:
            print(f"{hook:20}", *(f"{error:8.2g}" for error in errors), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    spawn(main, (count,), nprocs=count)
