"""Workloads and a hook that get slower, each for a cause of its own, when INJECT is set in the environment."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fixtures.matrix.hook import Hook
from tests.workloads_for_tests import _built, plain_loss, steady

if TYPE_CHECKING:
    from torch import Tensor, nn

INJECT = "DDP_PERF_TESTS_INJECT"
INJECTED = os.environ.get(INJECT) == "1"
_LAYERS, _WIDTH = 12, 4096


def _late(
    busy: "Callable[[], object]", loss: "Callable[[nn.Module, Tensor], Tensor]"
) -> "Callable[[nn.Module, Tensor], Tensor]":
    """Rank 1 is busy before each forward pass."""

    def late_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
        from torch import distributed

        if INJECTED and distributed.get_rank() == 1:
            busy()
        return loss(model, inputs)

    return late_loss


def _loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """At least 10 ms, so that a busy machine changes it little."""
    time.sleep(0.01)
    return plain_loss(model, inputs)


def _wide_model() -> "nn.Module":
    """Its largest parameter, and so its largest bucket, has 4 MB, or 23."""
    from torch import nn

    width = 2400 if INJECTED else 1024
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64))


def _slow_sample() -> "tuple[Tensor, ...]":
    """A loader whose workers together need 70 ms for a sample, however many the cores allow."""
    from fixtures.matrix.worlds import parse_world
    from fixtures.ranks.feed import loader_workers

    if INJECTED:
        time.sleep(0.07 * loader_workers(parse_world("2cpu")))
    return steady.sample()


def _many_operators_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Injected: six thousand operators on one element, which take Python and dispatch, not arithmetic."""
    loss = _loss(model, inputs)
    element = loss.detach()
    for _ in range(6000 if INJECTED else 0):
        element = element + 1.0
    return loss


late = replace(steady, name="late", loss=_late(lambda: time.sleep(0.08), _loss))
wide = replace(steady, name="wide", model=_wide_model, loss=_loss)
fed = replace(steady, name="fed", sample=_slow_sample, loss=_loss)
many_operators = replace(steady, name="many_operators", loss=_many_operators_loss)


# For GPUs: twelve layers, 805 MB of gradients.


def _deep_model() -> "nn.Module":
    from torch import nn

    return nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(_LAYERS)))


def _oversized_model() -> "nn.Module":
    """Injected: all layers but one are one layer of as many parameters, whose gradient comes last. A bucket holds a
    parameter whole, so nearly everything is sent after the backward pass, which takes long enough to send it meanwhile.
    """
    import torch
    from torch import nn

    class Delayed(nn.Module):
        """Keeps one SM busy for about half a millisecond a layer in the backward pass; NCCL has the others."""

        def __init__(self, layers: int) -> None:
            super().__init__()
            self._cycles = layers * 1_000_000

        def forward(self, inputs: "Tensor") -> "Tensor":
            inputs.register_hook(lambda gradient: torch.cuda._sleep(self._cycles))
            return inputs

    class Folded(nn.Module):
        def forward(self, wide: "Tensor") -> "Tensor":
            folded: Tensor = wide.unflatten(-1, (-1, _WIDTH)).sum(-2)
            return folded

    def linear(layers: int) -> nn.Module:
        return nn.Linear(_WIDTH, layers * _WIDTH, bias=False)

    if INJECTED:
        return nn.Sequential(linear(_LAYERS - 1), Folded(), Delayed(_LAYERS - 1), linear(1), Delayed(1))
    return nn.Sequential(*(module for _ in range(_LAYERS) for module in (linear(1), Delayed(1))))


def _unviewed_model() -> "nn.Module":
    """Injected: DDP is not given ``gradient_as_bucket_view`` for this model."""
    from torch.nn.parallel import DistributedDataParallel

    model = _deep_model()
    if INJECTED:
        wrap = DistributedDataParallel.__init__

        def wrapping(self: Any, module: Any, *arguments: Any, **more: Any) -> None:
            if module is model:
                more["gradient_as_bucket_view"] = False
            wrap(self, module, *arguments, **more)

        DistributedDataParallel.__init__ = wrapping  # type: ignore[method-assign]
    return model


def _synchronising_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Injected: the host waits for the GPU after each layer."""
    import torch
    from torch import nn

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)] if INJECTED else []
    handles = [layer.register_forward_hook(lambda *_: torch.cuda.synchronize()) for layer in layers]
    loss = plain_loss(model, inputs)
    for handle in handles:
        handle.remove()
    return loss


def _many_kernels_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Injected: five thousand kernels of one element, which the host cannot launch as fast as the GPU runs them."""
    loss = plain_loss(model, inputs)
    for _ in range(5000 if INJECTED else 0):
        loss = loss + 1.0
    return loss


_deep = replace(
    steady, batch_size=32, model=_deep_model, sample=_built(lambda torch: (torch.ones(_WIDTH),)), loss=plain_loss
)
deep = replace(_deep, name="deep")
late_gpu = replace(_deep, name="late_gpu", loss=_late(_built(lambda torch: torch.cuda._sleep(40_000_000)), plain_loss))
oversized = replace(_deep, name="oversized", model=_oversized_model)
unviewed = replace(_deep, name="unviewed", model=_unviewed_model)
synchronising = replace(_deep, name="synchronising", loss=_synchronising_loss)
many_kernels = replace(_deep, name="many_kernels", loss=_many_kernels_loss)


def _build(ddp: Any) -> Any:
    """A mean in bf16, which, injected, is sent as float32, four times over."""
    from torch import Tensor, distributed
    from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
    from torch.futures import Future

    def hook(state: None, bucket: GradBucket) -> Future[Tensor]:
        rounded = (bucket.buffer() / distributed.get_world_size()).bfloat16()
        sent = rounded.float() if INJECTED else rounded
        for _ in range(3 if INJECTED else 0):
            distributed.all_reduce(sent.clone())
        distributed.all_reduce(sent)
        done: Future[Tensor] = Future()
        done.set_result(sent.float())
        return done

    return None, hook


hook = Hook(name="own_bf16", build=_build, promise="mean", wire_dtype="bfloat16")
