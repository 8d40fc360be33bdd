"""A training script with accumulation under no_sync, a learning-rate schedule, autocast and a GradScaler."""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4

dist.init_process_group()
rank = int(os.environ["RANK"])
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10_000)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=5)  # the first updates are left out

for _ in range(10_000):
    optimizer.zero_grad()
    for part in range(ACCUMULATE):
        with model.no_sync() if part + 1 < ACCUMULATE else nullcontext():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(torch.randn(8, 32)), torch.randint(0, 8, (8,)))
            scaler.scale(loss / ACCUMULATE).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
