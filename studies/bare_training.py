"""The published experiment as a plain training script: a reference for the suite's numbers, independent of the suite.

    torchrun --standalone --nproc-per-node 8 studies/bare_training.py
    torchrun --standalone --nproc-per-node 1 studies/bare_training.py --single

Prints one JSON line with steps/s, from the host's time between two synchronisations on rank 0, as published.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torchvision
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

Batch = tuple[Tensor, Tensor]
BATCH_SIZE = 32


class RandomImages(Dataset[Batch]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Batch:
        return torch.randn(3, 224, 224), torch.randint(0, 1000, ())


def host_batches(feed: str, steps: int, size: int) -> Iterator[Batch]:
    if feed == "pinned":
        batch = (
            torch.randn(BATCH_SIZE, 3, 224, 224).pin_memory(),
            torch.randint(0, 1000, (BATCH_SIZE,)).pin_memory(),
        )
        for _ in range(steps):
            yield batch
        return
    dataset = RandomImages(steps * BATCH_SIZE * size)
    sampler: DistributedSampler[Batch] = DistributedSampler(dataset, shuffle=True)
    yield from DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=8, pin_memory=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--single", action="store_true", help="no DDP")
    parser.add_argument("--feed", choices=("pinned", "loader"), default="pinned")
    parser.add_argument("--bucket-cap-mb", type=float, default=2000, help="0: PyTorch's default")
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--bucket-view", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model: nn.Module = torchvision.models.vit_l_32(weights=None).to(local_rank)
    if not arguments.single:
        model = DistributedDataParallel(
            model,
            device_ids=[local_rank],
            bucket_cap_mb=arguments.bucket_cap_mb or None,
            static_graph=arguments.static_graph,
            gradient_as_bucket_view=arguments.bucket_view,
        )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    batches = host_batches(arguments.feed, arguments.warmup + arguments.steps, dist.get_world_size())
    start = 0.0
    for step, (images, labels) in enumerate(batches):
        if step == arguments.warmup:
            torch.cuda.synchronize()
            start = time.perf_counter()
        images, labels = images.to(local_rank, non_blocking=True), labels.to(local_rank, non_blocking=True)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    steps_per_s = arguments.steps / (time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(
            json.dumps(
                {
                    "config": "single" if arguments.single else "ddp",
                    "feed": arguments.feed,
                    "world_size": dist.get_world_size(),
                    "steps_per_s": steps_per_s,
                }
            ),
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
