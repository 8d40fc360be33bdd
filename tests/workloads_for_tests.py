"""Workloads for the tests of the command line: a workload with a chosen step time, and workloads that fail.

They go wrong in rank 1 of a world of two, in step 5.
torch is imported by the builders, so that runs which measure nothing are short.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixtures.matrix.workloads import Workload

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

STEP_MS = "DDP_PERF_TESTS_STEP_MS"
_FAULTY_STEP = 5

_steps = count()


def _built(build: Callable[[Any], Any]) -> Callable[[], Any]:
    """build: of torch, which a rank has imported by then; Any: torch, and what is built with it."""

    def built() -> Any:
        import torch
        from torch.utils import checkpoint  # noqa: F401  # torch does not import it by itself

        return build(torch)

    return built


_model = _built(lambda torch: torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)))
_nonlinear = _built(
    lambda torch: torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softplus(), torch.nn.Linear(64, 64))
)
_random = _built(lambda torch: (torch.randn(64),))


def _of_parts(parts: Callable[[Any], dict[str, Any]], forward: Callable[[Any, Any, Any], Any]) -> Callable[[], Any]:
    """parts: of torch, by name. forward: of torch, the module and the inputs."""

    def build(torch: Any) -> Any:
        class OfParts(torch.nn.Module):  # type: ignore[misc]  # torch is given
            def __init__(self) -> None:
                super().__init__()
                for name, part in parts(torch).items():
                    self.add_module(name, part)

            def forward(self, inputs: Any) -> Any:
                return forward(torch, self, inputs)

        return OfParts()

    return _built(build)


# A model of three parts. Each rank uses one, and no rank uses the third.
_experts = _of_parts(
    lambda torch: {"experts": torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))},
    lambda torch, model, inputs: model.experts[torch.distributed.get_rank()](inputs),
)
# Each batch goes to one of two experts.
_routed = _of_parts(
    lambda torch: {
        "norm": torch.nn.BatchNorm1d(64),
        "experts": torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2)),
    },
    lambda torch, model, inputs: model.experts[int(inputs[0, 0] > inputs[0, 1])](model.norm(inputs)),
)
# Matrices in 16 bits, as large models have them, around a norm in 32.
_mixed = _of_parts(
    lambda torch: {
        "before": torch.nn.Linear(64, 128, dtype=torch.bfloat16),
        "norm": torch.nn.LayerNorm(128),
        "after": torch.nn.Linear(128, 64, dtype=torch.bfloat16),
    },
    lambda torch, model, inputs: model.after(model.norm(model.before(inputs.bfloat16()).float()).bfloat16()).float(),
)
# The first layer has complex parameters.
_complex_numbers = _of_parts(
    lambda torch: {"before": torch.nn.Linear(64, 64, dtype=torch.complex64), "after": torch.nn.Linear(64, 64)},
    lambda torch, model, inputs: model.after(model.before(inputs.to(torch.complex64)).abs()),
)


def _checkpointed(torch: Any, model: Any, outputs: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(model.block, outputs, use_reentrant=True)


# One module is checkpointed twice.
_checkpointing = _of_parts(
    lambda torch: {"first": torch.nn.Linear(64, 64), "block": torch.nn.Linear(64, 64)},
    lambda torch, model, inputs: _checkpointed(torch, model, _checkpointed(torch, model, model.first(inputs))),
)


def _queueing() -> "nn.Module":
    """Its output depends on a queue of the outputs before, and on a buffer in whose place each pass puts another."""
    import torch
    from torch import nn

    class Queueing(nn.Module):
        queue: torch.Tensor
        passes: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
            self.register_buffer("queue", torch.zeros(8, 64))
            self.register_buffer("passes", torch.zeros(1))

        def forward(self, inputs: "Tensor") -> "Tensor":
            outputs: Tensor = self.blocks(inputs).tanh()
            scores = (outputs @ self.queue.clone().T).tanh()
            with torch.no_grad():
                self.queue.copy_(torch.cat([outputs, self.queue[: -len(outputs)]]))
                self.passes = self.passes + 1
            return outputs * (1 + scores.mean()) * (1 + self.passes % 2)

    return Queueing()


def _drawing_loss(own: bool) -> "Callable[[nn.Module, Tensor], Tensor]":
    """Each pass draws which half of the inputs it leaves out: from the generators of Python and numpy, or its own."""

    def loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
        import numpy as np

        first = next(_steps) % 2 if own else (random.random() < 0.5) ^ int(np.random.rand() < 0.5)
        inputs = inputs.clone()
        inputs[:, 32 * first : 32 * (first + 1)] = 0
        return _loss(model, inputs)

    return loss


def _penalised_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """A gradient penalty. With static_graph DDP then all-reduces nothing: torch.autograd.grad ends its first step."""
    import torch

    inputs = inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    return slope.square().mean() + _loss(model, inputs)


def _sample(size: int = 64) -> "tuple[Tensor, ...]":
    import torch

    return (torch.ones(size),)


def _tied_blocks() -> "nn.Module":
    from torch import nn

    model = nn.Sequential(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), nn.ReLU())
    model[0][1].weight = model[0][0].weight  # type: ignore[index]
    return model


def _of_other_generators() -> "tuple[Tensor, ...]":
    import numpy as np
    import torch

    return (torch.tensor([random.random() for _ in range(32)] + np.random.rand(32).tolist()) - 0.5,)


def _sample_every(batch_s: float) -> "tuple[Tensor, ...]":
    """As slow as it takes for all workers together to need so long for a batch of two, in a world of one."""
    from fixtures.matrix.worlds import parse_world
    from fixtures.ranks.feed import loader_workers

    time.sleep(batch_s * loader_workers(parse_world("1cpu")) / 2)
    return _sample()


def _optimizer(parameters: "Iterable[nn.Parameter]") -> "Optimizer":
    from torch.optim import SGD

    return SGD(parameters, lr=0.001)


def plain_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    loss: Tensor = model(inputs).square().mean()
    return loss


def _loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    time.sleep(float(os.environ.get(STEP_MS, "20")) / 1e3)
    return plain_loss(model, inputs)


def _slow_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """On rank 0 a step takes 140 ms longer."""
    from torch import distributed

    if distributed.get_rank() == 0:
        time.sleep(0.14)
    return plain_loss(model, inputs)


def _tenth_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    time.sleep(0.1)
    return plain_loss(model, inputs)


def _faulty(fault: Callable[[], object]) -> "Callable[[nn.Module, Tensor], Tensor]":
    """The fault comes in one step of the last rank, not of one; each has processes of its own, which begin to count
    at 0."""

    def loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
        from torch import distributed

        if next(_steps) == _FAULTY_STEP and distributed.get_rank() == max(1, distributed.get_world_size() - 1):
            fault()
        return _loss(model, inputs)

    return loss


def _raises() -> None:
    raise ValueError("the label is out of range")


def _hangs() -> None:
    threading.Event().wait()


def _interrupts() -> None:
    from tests.warm_ranks import RUN

    os.kill(int(os.environ.get(RUN) or os.getppid()), signal.SIGINT)


def _disk_losing_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """The run's folder is gone, and other workloads need new ranks."""
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)  # of ranks: the run's own folder
    os.umask(0o77)
    return _loss(model, inputs)


def _once_dying_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Rank 1 is killed in its first step of all, as by a kernel without memory."""
    from torch import distributed

    killed = Path(os.environ["TMPDIR"]) / "killed"
    if distributed.get_rank() == 1 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _loss(model, inputs)


def _shaky_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """As on a device that adds in changing order: no two passes give quite the same gradients."""
    import torch

    generator = torch.Generator()
    generator.seed()
    outputs = model(inputs)
    loss: Tensor = (outputs * (1 + 1e-5 * torch.randn(outputs.shape, generator=generator))).square().mean()
    return loss


def _late_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """Rank 1 comes 50 ms late to the all-reduce of every step: more than a busy machine delays the other."""
    from torch import distributed

    loss = plain_loss(model, inputs)
    if distributed.get_rank() == 1:
        time.sleep(0.05)
    return loss


def _restless_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    """On rank 0 every second step takes 60 ms longer. The 3 ms of all steps are above what other processes cost."""
    from torch import distributed

    time.sleep(0.003)
    if distributed.get_rank() == 0 and next(_steps) % 2:
        time.sleep(0.06)
    return plain_loss(model, inputs)


def _unprofilable_loss(model: "nn.Module", inputs: "Tensor") -> "Tensor":
    import torch

    if torch.autograd.profiler._is_profiler_enabled:
        raise ValueError("this model cannot be profiled")
    return _loss(model, inputs)


steady = Workload(
    name="steady", batch_size=2, model=_model, sample=_sample, same_sample=True, loss=_loss, optimizer=_optimizer
)
constant = replace(steady, name="constant", same_sample=False)
steady_512 = replace(steady, batch_size=512)
# With nothing that PowerSGD compresses.
narrow = replace(steady, name="narrow", model=_built(lambda torch: torch.nn.Linear(64, 1)))
raising = replace(steady, name="raising", loss=_faulty(_raises))
dying = replace(steady, name="dying", loss=_faulty(lambda: os.kill(os.getpid(), signal.SIGKILL)))
hanging = replace(steady, name="hanging", loss=_faulty(_hangs))
interrupting = replace(steady, name="interrupting", loss=_faulty(_interrupts))
disk_losing = replace(steady, name="disk_losing", loss=_disk_losing_loss)
once_dying = replace(steady, name="once_dying", loss=_once_dying_loss)
experts = replace(steady, name="experts", model=_experts, find_unused_parameters=True)
queueing = replace(steady, name="queueing", model=_queueing, sample=_random)
routed = replace(experts, name="routed", model=_routed, sample=_random, same_sample=False)
drawing = replace(steady, name="drawing", loss=_drawing_loss(own=False), sample=_random)
irreproducible = replace(drawing, name="irreproducible", loss=_drawing_loss(own=True))
checkpointing = replace(steady, name="checkpointing", model=_checkpointing, sample=_random)
penalised = replace(steady, name="penalised", model=_nonlinear, loss=_penalised_loss, sample=_random)
of_other_generators = replace(steady, name="of_other_generators", model=_nonlinear, sample=_of_other_generators)
left_out = replace(experts, name="left_out", find_unused_parameters=False)
shaky = replace(steady, name="shaky", loss=_shaky_loss)
complex_numbers = replace(steady, name="complex_numbers", model=_complex_numbers, sample=_random)
tied_blocks = replace(steady, name="tied_blocks", model=_tied_blocks)
mixed = replace(steady, name="mixed", batch_size=8, model=_mixed, sample=_random)
not_a_number = replace(steady, name="not_a_number", loss=lambda model, inputs: _loss(model, inputs) * float("nan"))
late = replace(steady, name="late", loss=_late_loss)
restless = replace(steady, name="restless", loss=_restless_loss)
slow = replace(steady, name="slow", loss=_slow_loss)

starved = replace(steady, name="starved", sample=lambda: _sample_every(0.25), loss=_tenth_loss)
just_starved = replace(starved, name="just_starved", sample=lambda: _sample_every(0.13))
unprofilable = replace(steady, name="unprofilable", loss=_unprofilable_loss)
lazy = replace(
    steady, name="lazy", model=_built(lambda torch: torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.Linear(8, 1)))
)
empty = replace(steady, name="empty", sample=lambda: ())
misshapen = replace(steady, name="misshapen", sample=lambda: _sample(32))
no_workload = "steady"
