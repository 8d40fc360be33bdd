"""A training script with argparse, DDP, a DistributedSampler and a loader with a worker; also without torchrun."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=100)
    arguments = parser.parse_args()

    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(
        nn.Linear(64, arguments.width),
        nn.ReLU(),
        nn.Linear(arguments.width, arguments.width),
        nn.Linear(arguments.width, 10),
    )
    if distributed:
        model = DistributedDataParallel(model, bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(512, 64), torch.randint(0, 10, (512,)))
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=1, persistent_workers=True)
    steps, began = 0, time.perf_counter()
    for epoch in range(arguments.epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        print(f"epoch {epoch}: {steps / (time.perf_counter() - began):.2f} steps/s")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
