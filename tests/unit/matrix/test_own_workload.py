"""A user's own workload that cannot be trained gives one line with the wrong field."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS, Workload
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.context import RankContext
from fixtures.ranks.feed import Batch, batches
from fixtures.ranks.loop import EagerStep, Several, build_optimizer, optimizer_of, run
from fixtures.ranks.window import Untimed
from tests.builders import as_rank


def loss_of(model: nn.Module, inputs: Tensor) -> Tensor:
    result: Tensor = model(inputs).square().mean()
    return result


def own(**fields: Any) -> Workload:
    """A workload that trains, but for these fields. Any: they may be what no workload has."""
    right = {"name": "mine", "model": lambda: nn.Linear(4, 4), "sample": lambda: (torch.ones(4),), "loss": loss_of}
    return replace(WORKLOADS["vit_tiny"], **{**right, **fields})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ({"batch_size": "4"}, "batch_size must be 1 or more, got '4'"),
        ({"model": nn.Linear(4, 4)}, "model must be a function, got a Linear: see docs/how-to/workload.md"),
        ({"sample": (torch.ones(4),)}, "sample must be a function, got a tuple"),
        ({"loss": nn.MSELoss()}, "loss must be a function, got a MSELoss"),
        ({"optimizer": torch.optim.SGD([torch.ones(1)])}, "optimizer must be a function, got a SGD"),
    ],
)
def test_what_no_workload_can_have_is_found_when_it_is_made(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^workload 'mine': {says}"):
        own(**fields)


@pytest.fixture
def ctx(tmp_path: Path) -> RankContext:
    """This process as a rank."""
    return as_rank(tmp_path)


def feed(ctx: RankContext, workload: Workload) -> Iterator[Batch]:
    return batches(ctx, workload, CONFIGS["single"], parse_world("1cpu"), steps=1, workers=1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sample": lambda: torch.ones(4)}, r"sample must return a tuple of tensors, got a Tensor$"),
        ({"sample": lambda: {"inputs": torch.ones(4)}}, r"sample must return a tuple of tensors, got a dict$"),
        ({"sample": lambda: (torch.ones(4), "cat")}, r"sample must return a tuple of tensors, got a tuple with a str$"),
        (
            {"loss": lambda model, inputs: model(inputs)},
            r"loss must return a scalar tensor, got a tensor of shape \(4, 4\)$",
        ),
        (
            {"loss": lambda model, inputs: model(inputs).mean().item()},
            r"loss must return a scalar tensor, got a float$",
        ),
        (
            {"loss": lambda model, inputs: model(inputs).mean().to(torch.complex64)},
            r"loss must return a scalar tensor of real numbers, got a complex64$",
        ),
        (
            {"loss": lambda model, inputs: model(inputs).mean().detach()},
            r"loss must return a scalar tensor that depends on the model's parameters, got one without a gradient$",
        ),
    ],
)
def test_what_its_functions_return_is_looked_at_in_the_first_step(
    ctx: RankContext, fields: dict[str, Any], says: str
) -> None:
    workload = own(**fields)
    model = workload.model()
    optimizer = optimizer_of(workload, model)
    step = EagerStep(ctx=ctx, workload=workload, model=model, optimizer=optimizer, feed=feed(ctx, workload))
    with pytest.raises(TypeError, match=f"^workload 'mine': {says}"):
        run(step, range(1), Untimed())


def test_what_is_no_optimizer_is_found_when_it_is_built(ctx: RankContext) -> None:
    workload = own(optimizer=lambda parameters: None)
    with pytest.raises(TypeError, match=r"^workload 'mine': optimizer must return an object with zero_grad and step, "):
        build_optimizer(ctx, workload, workload.model())
    with pytest.raises(TypeError, match=r"^workload 'mine': optimizer returned an empty list$"):
        optimizer_of(own(optimizer=lambda parameters: []), workload.model())
    beat = ctx.heartbeat.read(0)
    assert (beat.step, beat.phase) == (-1, "building the optimizer")


def test_numbers_in_a_sample_become_tensors(ctx: RankContext) -> None:
    workload = own(sample=lambda: (torch.ones(3), 3, 0.5))
    assert [tuple(tensor.shape) for tensor in next(feed(ctx, workload))] == [(4, 3), (4,), (4,)]


def test_several_optimizers_step_as_one() -> None:
    def optimizers(parameters: Iterable[nn.Parameter]) -> list[torch.optim.Optimizer]:
        first, *others = parameters
        return [torch.optim.SGD([first], lr=1), torch.optim.Adam(others, lr=1)]

    workload = own(optimizer=optimizers)
    model = workload.model()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = optimizer_of(workload, model)
    workload.loss(model, *(torch.ones(4, *part.shape) for part in workload.sample())).backward()
    optimizer.step()
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    optimizer.zero_grad()
    assert [p.grad for p in model.parameters()] == [None] * len(before)
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, len(before) - 1]
    assert isinstance(optimizer, Several)
    assert optimizer.name == "SGD + Adam"
