"""Ranks that run scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, cast

import pytest

from fixtures.launch.rank_sets import RankSets
from fixtures.launch.script import ScriptRequest, ScriptResult
from fixtures.matrix.lookup import SCRIPT
from fixtures.matrix.worlds import INTERCONNECTS, parse_world

SCRIPTS = Path(__file__).parent / "scripts"
STEPS, WARMUP = 6, 4

# Runs a script under a config and returns the results of its ranks.
Run = Callable[..., list[ScriptResult]]


@pytest.fixture(scope="module")
def sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60)
    yield sets
    sets.close()


@pytest.fixture
def run(sets: RankSets) -> Run:
    def run(
        script: Path, config: str = "as_written", world: str = "2cpu", *, rank_timeout_s: float = 60, **more: Any
    ) -> list[ScriptResult]:
        (ranks,) = sets.of(INTERCONNECTS["native"], code=frozenset({SCRIPT}))
        ranks.rank_timeout_s = rank_timeout_s
        request = ScriptRequest(
            **{"steps": STEPS, "warmup": WARMUP, **more}, workload="x", config=config, world=world, path=str(script)
        )
        try:
            return [cast(ScriptResult, one) for one in ranks.ask(parse_world(world), request, doing=config)]
        finally:
            ranks.close(patience_s=0)

    return run


# The head, the set-up and the step of scripts that tests change.
HEAD = """
    import contextlib, copy, io, os
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook, fp16_compress_hook
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Net(nn.Module):
        def __init__(self, buffer=0, norm=False):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64) if norm else nn.ReLU())
            self.head = nn.Linear(64, 10)
            if buffer:
                self.register_buffer("mask", torch.zeros(buffer))
        def forward(self, x):
            return self.head(self.body(x))

    def batch(n=32):
        return torch.randn(n, 64, generator=g), torch.randint(0, 10, (n,), generator=g)

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(rank)
    loss_of = nn.functional.cross_entropy
"""
PLAIN = """
m = DDP(Net())
o = torch.optim.SGD(m.parameters(), lr=0.01)
"""
STEP = """
x, y = batch()
loss = loss_of(m(x), y)
o.zero_grad()
loss.backward()
o.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a script from its set-up and its step."""

    def write(before: str = PLAIN, step: str = STEP, steps: int = 100) -> Path:
        path = tmp_path / "train.py"
        loop = f"for i in range({steps}):\n{indent(step, '    ')}"
        path.write_text("\n".join((dedent(HEAD), before, loop)))
        return path

    return write


# A script whose ranks run main(rank, size, ...); STARTS and JOINS are to fill in.
TRAINING = """
import argparse, os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def main(rank, size, *more):
    JOINS
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()

class Training:
    def begin(self, rank):
        main(rank, 2)

class Rank(mp.Process):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
    def run(self):
        main(self.rank, 2)

if __name__ == "__main__":
STARTS
"""
# Where nobody listens: the suite's own address takes its place.
OWN_ADDRESS = 'dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=rank, world_size=size)'
TAKES_RANK = """
rank, size = {}
main(int(rank), int(size))
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes TRAINING with these lines to start and to join."""

    def write(starts: str, joins: str = OWN_ADDRESS) -> Path:
        script = tmp_path / "train.py"
        script.write_text(TRAINING.replace("STARTS", indent(dedent(starts).strip(), "    ")).replace("JOINS", joins))
        return script

    return write
