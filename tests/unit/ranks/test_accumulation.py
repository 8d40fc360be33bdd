"""A step of several batches: step by step, and as a CUDA graph computes it, from tensors of its own for each batch."""

from itertools import islice
from pathlib import Path

import torch
from torch import nn

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import Workload
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import batches
from fixtures.ranks.loop import EagerStep, nothing_marked, optimizer_of
from fixtures.ranks.window import Untimed
from tests.builders import as_rank

WORKLOAD = Workload(
    name="line",
    batch_size=2,
    model=lambda: nn.Linear(3, 1),
    sample=lambda: (torch.randn(3),),
    loss=lambda model, inputs: model(inputs).square().mean(),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
)


def test_a_graph_reads_each_batch_of_its_step_from_tensors_of_its_own(tmp_path: Path) -> None:
    ctx = as_rank(tmp_path)
    config = CONFIGS["graph-accumulate_4-bucket_25mb"]
    addresses = [batch[0].data_ptr() for batch in batches(ctx, WORKLOAD, config, parse_world("1cpu"), 9, 1)]
    assert len(set(addresses[:4])) == 4
    assert addresses == [addresses[step % 4] for step in range(9)]


def test_a_step_to_capture_trains_like_one_of_the_loop(tmp_path: Path) -> None:
    """On four batches that differ."""
    ctx = as_rank(tmp_path)
    trained = []
    for captured in (False, True):
        torch.manual_seed(0)
        model = WORKLOAD.model()
        four = [(torch.randn(2, 3),) for _ in range(4)]
        optimizer = optimizer_of(WORKLOAD, model)
        step = EagerStep(ctx=ctx, workload=WORKLOAD, model=model, optimizer=optimizer, feed=iter(four), accumulate=4)
        if captured:
            step.compute(0, list(islice(step.feed, 4)), Untimed(), nothing_marked)
        else:
            step(0, Untimed(), nothing_marked)
        trained.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*trained)
