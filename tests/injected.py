"""Workloads and a hook that get slower, each for a cause of its own, when INJECT is set in the environment."""

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fixtures.matrix.hook import Hook
from tests.workloads_for_tests import steady

if TYPE_CHECKING:
    from torch import Tensor, nn

INJECT = "DDP_PERF_TESTS_INJECT"
INJECTED = os.environ.get(INJECT) == "1"


def _late_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Rank 1 comes 80 ms late to every all-reduce."""
    from torch import distributed

    if INJECTED and distributed.get_rank() == 1:
        time.sleep(0.08)
    return _loss(model, inputs)


def _loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """At least 10 ms, so that a busy machine changes it little."""
    time.sleep(0.01)
    loss: Tensor = model(inputs).square().mean()
    return loss


def _wide_model() -> "nn.Module":
    """Its largest parameter, and so its largest bucket, has 4 MB, or 64."""
    from torch import nn

    width = 4096 if INJECTED else 1024
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64))


def _slow_sample() -> "tuple[Tensor, ...]":
    """A loader that needs 100 ms for a sample."""
    if INJECTED:
        time.sleep(0.1)
    return steady.sample()


late = replace(steady, name="late", loss=_late_loss)
wide = replace(steady, name="wide", model=_wide_model, loss=_loss)
fed = replace(steady, name="fed", sample=_slow_sample, loss=_loss)


def _build(ddp: Any) -> Any:
    """A mean in bf16, which, injected, is sent as float32, four times over."""
    import torch
    from torch import distributed
    from torch.futures import Future

    def hook(state: None, bucket: Any) -> Any:
        rounded = (bucket.buffer() / distributed.get_world_size()).bfloat16()
        sent = rounded.float() if INJECTED else rounded
        for _ in range(3 if INJECTED else 0):
            distributed.all_reduce(sent.clone())
        distributed.all_reduce(sent)
        done: Future[torch.Tensor] = Future()
        done.set_result(sent.float())
        return done

    return None, hook


hook = Hook(name="own_bf16", build=_build, promise="mean", wire_dtype="bfloat16")
