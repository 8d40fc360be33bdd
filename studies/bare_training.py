"""The published experiment as a plain training script: a reference for the suite's numbers, independent of the suite.

    torchrun --standalone --nproc-per-node 8 studies/bare_training.py
    python studies/bare_training.py                                      # one GPU without DDP
    pytest perf --script "studies/bare_training.py"                      # the suite measures the script

Prints one JSON line with steps/s, from the host's time between two synchronisations on rank 0, as published. Without a
GPU it trains a small ViT over gloo.
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
ON_GPU = torch.cuda.is_available()
BATCH_SIZE, IMAGE, CLASSES = (32, 224, 1000) if ON_GPU else (8, 16, 10)


class RandomImages(Dataset[Batch]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Batch:
        return torch.randn(3, IMAGE, IMAGE), torch.randint(0, CLASSES, ())


def host_batches(feed: str, steps: int, size: int, workers: int) -> Iterator[Batch]:
    if feed == "pinned":
        images, labels = torch.randn(BATCH_SIZE, 3, IMAGE, IMAGE), torch.randint(0, CLASSES, (BATCH_SIZE,))
        batch = (images.pin_memory(), labels.pin_memory()) if ON_GPU else (images, labels)
        for _ in range(steps):
            yield batch
        return
    dataset = RandomImages(steps * BATCH_SIZE * size)
    sampler: DistributedSampler[Batch] | None = (
        DistributedSampler(dataset, shuffle=True) if dist.is_initialized() else None
    )
    yield from DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=workers, pin_memory=ON_GPU)


def build_model() -> nn.Module:
    model: nn.Module
    if ON_GPU:
        model = torchvision.models.vit_l_32(weights=None)
    else:
        model = torchvision.models.VisionTransformer(
            image_size=IMAGE, patch_size=8, num_layers=6, num_heads=3, hidden_dim=192, mlp_dim=768, num_classes=CLASSES
        )
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--feed", choices=("pinned", "loader"), default="pinned")
    parser.add_argument("--workers", type=int, default=8, help="of the loader, each rank")
    parser.add_argument("--bucket-cap-mb", type=float, default=2000, help="0: PyTorch's default")
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--bucket-view", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--bf16", action="store_true", help="the hook that sends gradients in bfloat16")
    parser.add_argument("--powersgd", type=int, metavar="RANK", help="the hook PowerSGD, from the second step on")
    parser.add_argument("--autocast", action="store_true", help="in bfloat16")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    launched = "RANK" in os.environ
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local_rank) if ON_GPU else torch.device("cpu")
    if ON_GPU:
        torch.cuda.set_device(device)
    if launched:
        dist.init_process_group("nccl" if ON_GPU else "gloo")
    model = build_model().to(device)
    if launched:
        model = DistributedDataParallel(
            model,
            device_ids=[local_rank] if ON_GPU else None,
            bucket_cap_mb=arguments.bucket_cap_mb or None,
            static_graph=arguments.static_graph,
            gradient_as_bucket_view=arguments.bucket_view,
        )
    if arguments.bf16 and isinstance(model, DistributedDataParallel):
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        model.register_comm_hook(None, bf16_compress_hook)
    if arguments.powersgd and isinstance(model, DistributedDataParallel):
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

        state = PowerSGDState(None, matrix_approximation_rank=arguments.powersgd, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    size = dist.get_world_size() if launched else 1
    batches = host_batches(arguments.feed, arguments.warmup + arguments.steps, size, arguments.workers)
    start = 0.0
    for step, (images, labels) in enumerate(batches):
        if step == arguments.warmup:
            start = now(device)
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=arguments.autocast):
            loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    steps_per_s = arguments.steps / (now(device) - start)
    if local_rank == 0:
        shown = {"feed": arguments.feed, "ddp": launched, "world_size": size, "steps_per_s": steps_per_s}
        print(json.dumps(shown), flush=True)
    if launched:
        dist.destroy_process_group()


def now(device: torch.device) -> float:
    """The host's time once the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
