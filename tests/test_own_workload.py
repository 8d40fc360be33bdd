"""A workload of a user's own that cannot be trained says so in one line, with the field that is wrong."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS, Workload
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.clock import NoClock
from fixtures.ranks.feed import Batch, batches
from fixtures.ranks.heartbeat import Heartbeat
from fixtures.ranks.loop import run
from fixtures.ranks.rank import Here


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
        ({"model": nn.Linear(4, 4)}, "model must be a function, got a Linear: see docs/workloads.md"),
        ({"sample": (torch.ones(4),)}, "sample must be a function, got a tuple"),
        ({"loss": nn.MSELoss()}, "loss must be a function, got a MSELoss"),
        ({"optimizer": torch.optim.SGD([torch.ones(1)])}, "optimizer must be a function, got a SGD"),
    ],
)
def test_what_no_workload_can_have_is_found_when_it_is_made(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^workload 'mine': {says}"):
        own(**fields)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """This process as a rank."""
    return Here(rank=0, device=torch.device("cpu"), folder=tmp_path, heartbeat=Heartbeat(tmp_path / "heartbeat", 1))


def feed(here: Here, workload: Workload) -> Iterator[Batch]:
    return batches(here, workload, CONFIGS["single"], parse_world("1cpu"), steps=1, workers=1)


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
        ({"optimizer": lambda parameters: None}, r"optimizer must return one with zero_grad and step, got a NoneType$"),
    ],
)
def test_what_its_functions_return_is_looked_at_in_the_first_step(
    here: Here, fields: dict[str, Any], says: str
) -> None:
    workload = own(**fields)
    model = workload.model()
    optimizer = workload.optimizer(model.parameters())
    with pytest.raises(TypeError, match=f"^workload 'mine': {says}"):
        run(here, workload, model, optimizer, feed(here, workload), NoClock(), range(1))


def test_numbers_in_a_sample_become_tensors(here: Here) -> None:
    workload = own(sample=lambda: (torch.ones(3), 3, 0.5))
    assert [tuple(tensor.shape) for tensor in next(feed(here, workload))] == [(4, 3), (4,), (4,)]
