"""A workload with weights, a norm with buffers and 16-bit parts, and variants that differ in one property each."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fixtures.matrix.workloads import Workload
from tests.workloads_for_tests import _built, plain_loss

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


def _model(width: int = 16, *, norm: bool = True, frozen: bool = False) -> "nn.Module":
    from torch import nn

    first = nn.Linear(8, width)
    first.bias.requires_grad_(not frozen)
    return nn.Sequential(first, nn.BatchNorm1d(width) if norm else nn.Identity(), nn.Linear(width, 4))


def _autocast_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        return plain_loss(model, inputs)


def _optimizer(parameters: "Iterable[nn.Parameter]", lr: float = 0.001, name: str = "SGD") -> "Optimizer":
    from torch import optim

    built: Optimizer = getattr(optim, name)(parameters, lr=lr)
    return built


variant = Workload(
    name="variant",
    batch_size=4,
    model=_model,
    sample=_built(lambda torch: (torch.randn(8),)),
    loss=plain_loss,
    optimizer=_optimizer,
)
batch = replace(variant, batch_size=6)
shape = replace(variant, model=lambda: _model(32))
frozen = replace(variant, model=lambda: _model(frozen=True))
buffers = replace(variant, model=lambda: _model(norm=False))
dtype = replace(variant, model=lambda: _model().double(), sample=_built(lambda torch: (torch.randn(8).double(),)))
optimizer = replace(variant, optimizer=lambda parameters: _optimizer(parameters, name="AdamW"))
learning_rate = replace(variant, optimizer=lambda parameters: _optimizer(parameters, 0.1))
autocast = replace(variant, loss=_autocast_loss)
unused = replace(variant, find_unused_parameters=True)
