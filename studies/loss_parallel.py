"""A plain training script of a classifier whose last layer and loss are split over the ranks.

    pytest perf --script studies/loss_parallel.py     what studies.regressions compares

Runs on the CPU, over gloo.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module
from torch.nn.functional import cross_entropy

WIDTH, WORDS, BATCH, STEPS = 256, 4096, 64, 300


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WORDS))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split = ColwiseParallel(input_layouts=Replicate(), output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(model, mesh, {"2": split})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    for _ in range(STEPS):
        optimizer.zero_grad()
        batch, labels = torch.randn(BATCH, WIDTH), torch.randint(WORDS, (BATCH,))
        with loss_parallel():
            cross_entropy(model(batch), labels).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
