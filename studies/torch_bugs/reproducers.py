"""Reproducers of the bugs of torch that have an issue, need GPUs or end in a hang. They run inside a rank.

To add one, write a function with the name of the bug below those of its subject and enter it in ``__main__.py``. It
takes ``ctx``, provokes the bug and returns a line for each wrong result (none once the bug is fixed). It raises errors
other than the known one. A bug that is not reported yet gets a script of its own instead, ready to be reported.
"""

import io
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch import _dynamo as dynamo
from torch.distributed import (  # type: ignore[attr-defined]  # public, but not in __all__
    DistStoreError,
    FileStore,
)
from torch.distributed.algorithms.ddp_comm_hooks import (
    ddp_zero_hook,
    default_hooks,
    powerSGD_hook,
    quantization_hooks,
)
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _BufferCommHookLocation, _MixedPrecision

from fixtures.gradients.in_rank.hook_steps import check
from fixtures.gradients.in_rank.run import Probe
from fixtures.matrix.hooks import HOOKS
from fixtures.ranks.context import RankContext
from fixtures.ranks.hook_result import DdpHook
from fixtures.ranks.wrapping import adapt

Shapes = Sequence[Sequence[int]]


def shows(ctx: RankContext, *, name: str) -> list[str]:
    """A line for each wrong result of the function of this name here, or of the report of this name."""
    if name in globals():
        lines: list[str] = globals()[name](ctx)
        return lines
    return ["as in its report"] if import_module(f"{__package__}.{name}").bug(ctx.rank) else []


# The first step in which PowerSGD compresses; the least that it accepts with error feedback.
START = 2


class Given(nn.Module):
    """Parameters whose gradients are the arguments of ``forward``, also complex ones; None leaves one unused."""

    def __init__(self, shapes: Shapes, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(tuple(shape), dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: Tensor | None) -> Tensor:
        used = [(w, g) for w, g in zip(self.weights, gradients, strict=True) if g is not None]
        return torch.stack([(w * g.conj()).sum().real for w, g in used]).sum()


def drawn(shapes: Shapes, *, rank: int, step: int = 0, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Normal gradients of one rank in one step; every rank draws the same ones."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return [torch.randn(tuple(shape), generator=generator, dtype=dtype) for shape in shapes]


def means(shapes: Shapes, *, step: int = 0, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """The mean over the ranks of the drawn gradients."""
    ranks = [drawn(shapes, rank=rank, step=step, dtype=dtype) for rank in range(distributed.get_world_size())]
    return [torch.stack(gradients).mean(0) for gradients in zip(*ranks, strict=True)]


def backward(ddp: nn.Module, gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """Take one step from empty gradients. Returns copies of the gradients after it, zeros for parameters without."""
    ddp.zero_grad()
    ddp(*gradients).backward()
    return dense_gradients(ddp)


def dense_gradients(module: nn.Module) -> list[Tensor]:
    """Dense copies of the gradients that a module's parameters hold, zeros for parameters without."""
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in module.parameters()]
    return [grad.to_dense() if grad.is_sparse else grad.clone() for grad in grads]


# Any: arguments of PowerSGDState.
def new_state(**arguments: Any) -> powerSGD_hook.PowerSGDState:
    """A state that compresses from step START on."""
    return powerSGD_hook.PowerSGDState(None, **{"start_powerSGD_iter": START, **arguments})


def register_power_sgd(ddp: DistributedDataParallel, state: powerSGD_hook.PowerSGDState) -> None:
    """Register PowerSGD in the form that gloo can run with several buckets."""
    ddp.register_comm_hook(state, adapt(powerSGD_hook.powerSGD_hook, nested=True))


def differ(got: Sequence[Tensor], wanted: Sequence[Tensor], *, within: float) -> list[str]:
    """A line for each tensor whose relative error in norm is more than ``within``."""
    errors = [float((have - want).norm() / want.norm()) for have, want in zip(got, wanted, strict=True)]
    return [
        f"gradient {index} is off by {error:.3g} of its norm, {within:.3g} is allowed"
        for index, error in enumerate(errors)
        if not error <= within  # so that NaN is wrong
    ]


@contextmanager
def known(wrong: list[str], kind: type[Exception], text: str) -> Iterator[None]:
    """Append an error of this kind with this text in its message or traceback to ``wrong``; raise any other error."""
    try:
        yield
    except kind as error:
        if text not in "".join(traceback.format_exception(error)):
            raise
        wrong.append(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else f'in {text}'}")


# Of hooks.
_SHAPES = ((16, 16), (5,))


def mixed_precision_uncalled(ctx: RankContext) -> list[str]:
    """DDP installs the reduction of a gradient before the forward pass of the module that holds the parameter, and a
    ParameterList has no forward pass: each rank keeps its own gradient, in 16 bits."""
    return _with_mixed_precision(ctx, Given(_SHAPES), steps=2)


def mixed_precision_first_step(ctx: RankContext) -> list[str]:
    """DDP gives its buckets new 16-bit memory, but gradients are copied to views of the old memory. Until DDP rebuilds
    its buckets before the second step, it reduces uninitialised memory."""
    return _with_mixed_precision(ctx, Probe(_SHAPES, [torch.float32]), steps=1)


def _with_mixed_precision(ctx: RankContext, module: nn.Module, *, steps: int) -> list[str]:
    """A line for each gradient of the last step that is not the mean."""
    low = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    ddp = DistributedDataParallel(module.to(ctx.device), device_ids=ctx.device_ids, mixed_precision=low)
    for step in range(steps):
        out = backward(ddp, [gradient.to(ctx.device) for gradient in drawn(_SHAPES, rank=ctx.rank, step=step)])
    return differ([gradient.float().cpu() for gradient in out], means(_SHAPES, step=steps - 1), within=2**-7)


def zero_sharded_buckets(ctx: RankContext) -> list[str]:
    """A rank may get at most one part of a bucket. Each of three equal parameters is a part of its own, since two of
    them are more than half of the bucket. So the third part finds no rank out of two."""
    wrong: list[str] = []
    module = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(3))).to(ctx.device)
    ddp = DistributedDataParallel(module, device_ids=ctx.device_ids)
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), optimizer_class=torch.optim.SGD, overlap_with_ddp=True, lr=0.1
    )
    hook = ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, ddp, optimizer, shard_buckets=True)
    ddp.register_comm_hook(None, hook)
    with known(wrong, AssertionError, "All indices are disallowed"):
        for _ in range(4):  # in the first three the hook learns the buckets
            ddp(torch.ones(1, 8, device=ctx.device)).sum().backward()
    return wrong


def static_graph_no_sync(ctx: RankContext) -> list[str]:
    """static_graph takes a first backward under no_sync for the iteration in which it learns the graph."""
    ddp, wrong = DistributedDataParallel(Given(_SHAPES), static_graph=True), list[str]()
    ddp.zero_grad()
    with known(wrong, RuntimeError, "expect_autograd_hooks_"):
        with ddp.no_sync():
            ddp(*drawn(_SHAPES, rank=ctx.rank)).backward()
        ddp(*drawn(_SHAPES, rank=ctx.rank, step=1)).backward()
        wanted = [first + second for first, second in zip(means(_SHAPES), means(_SHAPES, step=1), strict=True)]
        wrong += differ(dense_gradients(ddp), wanted, within=1e-6)
    return wrong


class _TwoHeads(nn.Module):
    """A module with two outputs; the loss uses only the first."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([Given(_SHAPES), Given(_SHAPES)])

    def forward(self, *gradients: Tensor) -> list[Tensor]:
        return [head(*gradients) for head in self.heads]


def static_graph_unused_output(ctx: RankContext) -> list[str]:
    """static_graph does not detect a parameter whose output is not in the loss; find_unused_parameters does."""
    module, wrong = _TwoHeads(), list[str]()
    ddp = DistributedDataParallel(module, static_graph=True)
    with known(wrong, RuntimeError, "Expected to have finished reduction"):
        for step in range(3):
            ddp.zero_grad()
            ddp(*drawn(_SHAPES, rank=ctx.rank, step=step))[0].backward()
        wrong += differ(dense_gradients(module.heads[0]), means(_SHAPES, step=2), within=1e-6)
    return wrong


class _Tables(nn.Module):
    """Two embeddings with sparse gradients; a step may use only one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(4, 3, sparse=True) for _ in range(2))

    def forward(self, rows: Tensor, which: list[int]) -> Tensor:
        return torch.stack([self.tables[index](rows).sum() for index in which]).sum()


def unused_sparse(ctx: RankContext) -> list[str]:
    """find_unused_parameters fills in zeros for an unused parameter, but not for one with sparse gradients."""
    module, wrong = _Tables(), list[str]()
    ddp = DistributedDataParallel(module, find_unused_parameters=True)
    with known(wrong, RuntimeError, "Expected sparse gradient to be defined"):
        for which in ([0, 1], [0]):
            ddp.zero_grad()
            ddp(torch.tensor([ctx.rank, 2]), which).backward()
        wanted = torch.tensor([[0.5], [0.5], [1.0], [0.0]]).expand(4, 3)
        wrong += differ(dense_gradients(module.tables[0]), [wanted], within=1e-6)
    return wrong


def buffer_hook_join(ctx: RankContext) -> list[str]:
    """A rank without data takes part in buffer hooks before the forward pass but not in those after it."""
    module = Given(_SHAPES)
    module.register_buffer("count", torch.zeros(3))
    ddp, wrong = DistributedDataParallel(module), list[str]()

    def average(state: Any, buffers: dict[str, Tensor]) -> None:
        for buffer in buffers.values():
            distributed.all_reduce(buffer)
            buffer.div_(2)

    ddp._register_buffer_comm_hook(None, average, _BufferCommHookLocation.POST_FORWARD)
    with ddp.join():
        for step in range(2 if ctx.rank == 0 else 1):
            out = backward(ddp, drawn(_SHAPES, rank=ctx.rank, step=step))
            wanted = means(_SHAPES) if step == 0 else [g / 2 for g in drawn(_SHAPES, rank=0, step=1)]
            wrong += differ(out, wanted, within=1e-6)
    return wrong


# Of PowerSGD.
def powersgd_nan(ctx: RankContext) -> list[str]:
    """For a layer first used after compression has begun, Gram-Schmidt divides 0 by 0; the NaN stays in the state."""
    shapes = ((16, 16), (16, 16))
    ddp = DistributedDataParallel(Given(shapes), find_unused_parameters=True)
    register_power_sgd(ddp, new_state(orthogonalization_epsilon=0))
    for step in range(START + 4):
        used, late = drawn(shapes, rank=ctx.rank, step=step)
        out = backward(ddp, [used, late if step > START else None])
    return [f"gradient {index} is not finite" for index, grad in enumerate(out) if not grad.isfinite().all()]


def powersgd_resume(ctx: RankContext) -> list[str]:
    """The state's flat memory is in the order of rebuilt buckets; a fresh DDP starts with the original order."""
    return _resume(ctx, ((16, 16), (24, 12)))


def powersgd_resume_several_buckets(ctx: RankContext) -> list[str]:
    """As for one bucket, but the memory of a bucket is applied to a bucket of another size."""
    wrong: list[str] = []
    with known(wrong, RuntimeError, "must match the size of tensor"):
        wrong += _resume(ctx, ((16, 16), (24, 12), (40, 40), (30,)), bucket_cap_mb=0.001)
    return wrong


def _resume(ctx: RankContext, shapes: Shapes, *, bucket_cap_mb: float | None = None) -> list[str]:
    """Compare training on with training on from a checkpoint in a fresh DDP: gradients must be equal to the bit."""
    ddp, saved = DistributedDataParallel(Given(shapes), bucket_cap_mb=bucket_cap_mb), START + 3
    state = new_state(matrix_approximation_rank=2)
    register_power_sgd(ddp, state)
    out: list[Tensor] = []
    file = io.BytesIO()
    for step in range(saved + 3):
        if step == saved:
            torch.save(state, file)
        out = backward(ddp, drawn(shapes, rank=ctx.rank, step=step))
    file.seek(0)
    fresh = DistributedDataParallel(Given(shapes), bucket_cap_mb=bucket_cap_mb)
    register_power_sgd(fresh, torch.load(file, weights_only=False))
    for step in range(saved, saved + 3):
        resumed = backward(fresh, drawn(shapes, rank=ctx.rank, step=step))
    return differ(resumed, out, within=0)


# Of DDP's options and of ZeRO's hook.


def hook_group(ctx: RankContext) -> list[str]:
    """A hook without a state averages over all ranks even if DDP has a smaller group."""
    groups = [distributed.new_group([rank]) for rank in range(distributed.get_world_size())]
    ddp = DistributedDataParallel(Given(_SHAPES), process_group=groups[ctx.rank])
    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    mine = drawn(_SHAPES, rank=ctx.rank)
    return differ(backward(ddp, mine), mine, within=1e-6)


def quantised_per_tensor_gloo(ctx: RankContext) -> list[str]:
    """The hook indexes a future's value, which on gloo is not the list of gathered tensors."""
    return _quantised(ctx, quantization_hooks.quantization_pertensor_hook)


def quantised_per_channel_gloo(ctx: RankContext) -> list[str]:
    """The same as for the per-tensor hook."""
    return _quantised(ctx, quantization_hooks.quantization_perchannel_hook)


def _quantised(ctx: RankContext, hook: DdpHook) -> list[str]:
    ddp, wrong = DistributedDataParallel(Given(_SHAPES)), list[str]()
    ddp.register_comm_hook(None, adapt(hook, nested=True))
    with known(wrong, RuntimeError, "IndexError"):
        # The hook rounds to a 255th of a normal bucket's range, which is below 1 % of its norm.
        wrong += differ(backward(ddp, drawn(_SHAPES, rank=ctx.rank)), means(_SHAPES), within=0.05)
    return wrong


AS_IT_IS = replace(
    HOOKS["quantised_per_channel"],
    name=f"{__name__}:AS_IT_IS",
    build=lambda ddp: (None, quantization_hooks.quantization_perchannel_hook),
)


def quantised_per_channel_race(ctx: RankContext) -> list[str]:
    """The hook's callback runs on another stream and reads a padded copy of the bucket, which is freed as soon as the
    callback has been issued. With several buckets the allocator gives the memory to the next bucket. Results are off by
    up to the whole range."""
    return check(ctx, hook=AS_IT_IS.name, option="bucket_1kb", kinds=["normal"])


def nested_hook_gloo(ctx: RankContext) -> list[str]:
    """A hook waits for a collective inside a future's callback. With several buckets, ranks issue their collectives in
    different orders, and hang or receive another bucket's data.
    """
    shapes = [(64, 48)] * 8
    ddp = DistributedDataParallel(Given(shapes), bucket_cap_mb=0.001)
    ddp.register_comm_hook(new_state(), powerSGD_hook.powerSGD_hook)
    for step in range(START + 20):
        ctx.beat(step, "backward")
        backward(ddp, drawn(shapes, rank=ctx.rank, step=step))
    return []


def python_reducer_race(ctx: RankContext) -> list[str]:
    """The 16-bit hooks write the sum in a future's callback, for which the reducer in Python does not wait. Unless the
    backward pass is compiled as well, backward() returns before the gradient is ready.

    Rank 1 begins its backward pass only when rank 0 has read its gradient, or after a second.
    """
    wrong: list[str] = []
    module = Given(_SHAPES)
    with dynamo.config.patch(optimize_ddp="python_reducer"):
        ddp = DistributedDataParallel(module)
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        compiled = torch.compile(ddp, backend="eager")
        store = FileStore(str(ctx.folder / "python-reducer"), 2)
        if ctx.rank == 1:
            with suppress(DistStoreError):  # if backward() waits for rank 1, rank 0 reads only later
                store.wait(["read"], timedelta(seconds=1))
        compiled(*drawn(_SHAPES, rank=ctx.rank)).backward()
        if ctx.rank == 0:
            wrong += differ(dense_gradients(module), means(_SHAPES), within=2**-9)
        store.set("read", "")
    distributed.barrier()
    dynamo.reset()
    return wrong
