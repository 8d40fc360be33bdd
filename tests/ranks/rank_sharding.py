"""Code inside a rank for test_sharding.py: a measured config, and the lines for users to paste."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.context import RankContext
from fixtures.ranks.gradient_error import gradient_error
from fixtures.ranks.issued_collectives import Issued, collectives
from fixtures.ranks.loop import Several, build_optimizer
from fixtures.ranks.sharding import is_sharded, with_optimizer
from fixtures.ranks.wrapping import wrap

_STEPS = 5


class Block(nn.Module):
    """33 rows cannot be shared equally by two ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(33, 16), nn.Linear(16, 33)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(self.into(x).tanh())  # type: ignore[no-any-return]  # nn.Module.__call__ is Any


class Blocks(nn.Module):
    """Layers before and after three blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(48, 33)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.after = nn.Linear(33, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        for layer in self.layers:
            x = layer(x)
        return self.after(x)  # type: ignore[no-any-return]  # nn.Module.__call__ is Any


def trained(ctx: RankContext, *, config: str, world: str) -> dict[str, Any]:
    """Return ``before``, and ``measured`` and ``pasted``: the weights after some steps.

    And the bytes of a step: ``predicted``, and ``issued`` by its collectives; the ``blocks``; whether FSDP2 is used;
    the blocks that it gathers ``ahead``.
    """
    asked = CONFIGS[config]
    model = _model()
    before = _weights(model)
    workload = with_optimizer(replace(WORKLOADS["vit_tiny"], model=_model), asked)
    wrapped = wrap(model, workload, asked, parse_world(world), ctx.device)
    batches = _batches(ctx.rank)
    optimizer = build_optimizer(ctx, workload, model)
    _train(wrapped.module, optimizer, batches, _STEPS)
    measured = _weights(model)
    of_rank, _ = collectives(lambda: _train(wrapped.module, optimizer, batches, 1))
    issued = Issued.of_all(of_rank, ranks=parse_world(world).size, device=ctx.device)
    blocks = wrapped.shards.blocks if wrapped.shards else ()
    names: dict[str, Any] = {"model": _model()}
    exec("\n".join(asked.lines(on_gpu=False, blocks=blocks)), names)
    pasted = Several([names[name] for name in ("optimizer", "muon", "adamw") if name in names])
    _train(names["model"], pasted, _batches(ctx.rank), _STEPS)
    return {
        "before": before,
        "measured": measured,
        "pasted": _weights(names["model"]),
        "predicted": wrapped.wire_bytes(find_hook(asked.hook), parse_world(world)),
        "issued": issued.bytes_sent,
        "blocks": list(blocks),
        "in_fsdp2": [is_sharded(wrapped.module), is_sharded(names["model"])],
        "ahead": [_ahead(each.layers) for each in (model, names["model"])] if wrapped.shards and blocks else [],
    }


def error(ctx: RankContext, *, config: str, world: str, factor: float) -> dict[str, Any]:
    """Return the gradient error of a sharded model whose gradients are this many times those of its plain copy."""

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        value: Tensor = model(x).square().mean()
        return value * factor if is_sharded(model) else value

    workload = replace(WORKLOADS["vit_tiny"], model=_model, loss=loss)
    sharded = wrap(_model(), workload, CONFIGS[config], parse_world(world), ctx.device).module
    batch, in_bf16 = (next(_batches(ctx.rank)),), CONFIGS[config].in_bf16
    found = gradient_error(ctx, workload, sharded, batch, called=sharded, in_bf16=in_bf16)
    assert found is not None
    return {"relative": found.relative, "lossless": found.lossless}


def _ahead(blocks: Any) -> list[list[list[int]]]:
    """For the forward and the backward pass, the blocks that each block gathers ahead. Any: torch shows no state."""
    states = [block._get_fsdp_state() for block in blocks]
    return [
        [[states.index(other) for other in ahead] for ahead in of_pass]
        for of_pass in (
            [state._states_to_forward_prefetch for state in states],
            [state._states_to_backward_prefetch for state in states],
        )
    ]


def _model() -> nn.Module:
    torch.manual_seed(0)
    return Blocks()


def _batches(rank: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(rank)
    while True:
        yield torch.randn(4, 48, generator=generator)


def _train(model: nn.Module, optimizer: Optimizer, batches: Iterator[Tensor], steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(next(batches)).square().mean().backward()
        optimizer.step()


def _weights(model: nn.Module) -> list[float]:
    """All parameters; under FSDP2 they are DTensors, which every rank gathers. Any: DTensor has no type here."""
    whole: list[Any] = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return [value for tensor in whole for value in tensor.detach().flatten().tolist()]
