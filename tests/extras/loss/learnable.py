"""A script and a workload that learn: which of ten random directions is nearest to a sample; and a harmful hook.

As a script: ``learnable.py [--by-hand] [--steps N]``.
"""

import argparse
from dataclasses import replace

import torch
from torch import Tensor, distributed, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future
from torch.nn.functional import cross_entropy

from fixtures.matrix.workloads import Workload

_DIRECTIONS = torch.randn(16, 10, generator=torch.Generator().manual_seed(7))


def sample() -> tuple[Tensor, Tensor]:
    values = torch.randn(16)
    return values, (values @ _DIRECTIONS).argmax()


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, 10))


workload = Workload(
    name="learnable",
    batch_size=32,
    model=model,
    sample=sample,
    loss=lambda model, values, labels: cross_entropy(model(values), labels),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.2),
)
unlearnable = replace(workload, name="unlearnable", optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.0))


def half_dropped(_state: object, bucket: GradBucket) -> Future[Tensor]:
    """The first half of each bucket never arrives."""
    sent = bucket.buffer().div_(distributed.get_world_size())
    sent[: sent.numel() // 2] = 0
    future: Future[list[Tensor]] = distributed.all_reduce(sent, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


def _train() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    ddp = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    torch.manual_seed(100 + distributed.get_rank())
    for _ in range(given.steps):
        values = torch.randn(32, 16)
        scores = ddp(values)
        loss = cross_entropy(scores, (values @ _DIRECTIONS).argmax(1))
        optimizer.zero_grad()
        if given.by_hand:
            scores.backward(torch.autograd.grad(loss, scores, retain_graph=True)[0])
        else:
            loss.backward()
        optimizer.step()


if __name__ == "__main__":
    _train()
