"""Hooks, updates and buffer scenarios with planted bugs, each of which shows only in the scenario named with it.

To add one, write it as what it claims to be and enter it in CAUGHT_BY with the scenario and option that must catch it.
Import ``torch.distributed.optim`` inside functions, in a rank: torch 2.13 warns on its import, and pytest, which
imports this module to collect tests, turns warnings into errors.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, distributed
from torch import _dynamo as dynamo
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import optimizer_overlap_hooks as overlap
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.futures import Future

from fixtures.gradients.cases import BufferScenario
from fixtures.gradients.in_rank.parameters import Begin, Update
from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import HOOKS, POWERSGD_FULL_RANK
from tests.mutants.hooks import done

_HERE = "tests.mutants.scenarios"
_ALLREDUCE = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks:allreduce_hook"

# Name of a hook -> the scenario and the option that catch it.
CAUGHT_BY: dict[str, tuple[str, str]] = {
    # Within every bound at three ranks; caught because the ranks' bits differ.
    "tests.mutants.hooks:each_rank_adds_in_its_own_order": ("group_of_all", "default"),
}

# Any: DDP, groups and optimizers are torch's.
Mean = Callable[[Any, GradBucket], Tensor]


def mean_over(group: Any, tensor: Tensor, divisor: int | None = None) -> Tensor:
    """The correct mean over the group; None: all ranks."""
    out = tensor.div(divisor or distributed.get_world_size(group))
    distributed.all_reduce(out, group=group)
    return out


def _average(make: Callable[..., Any], name: str = "") -> Hook:
    """make: from DDP's group and a bucket to its result, or from DDP and both; or from DDP to such a function."""
    takes = len(signature(make).parameters)

    def build(ddp: Any) -> tuple[None, Callable[..., Future[Tensor]]]:
        mean = make(ddp) if takes == 1 else make if takes == 2 else partial(make, ddp)
        return None, lambda state, bucket: done(mean(state, bucket))

    name = f"{_HERE}:{name or make.__name__}"
    return Hook(name=name, build=build, promise="mean", wire_dtype="gradient", arithmetic="divide")


def _of_gradients(result: Callable[[Any, Tensor], Tensor]) -> Mean:
    return lambda group, bucket: result(group, bucket.buffer())


def caught_by(scenario: str, option: str = "default") -> Callable[[Callable[..., Any]], Hook]:
    def enter(make: Callable[..., Any]) -> Hook:
        average = _average(make)
        CAUGHT_BY[average.name] = (scenario, option)
        return average

    return enter


@_average
def sound(group: Any, bucket: GradBucket) -> Tensor:
    """Correct."""
    return mean_over(group, bucket.buffer())


# ---- hooks

# Scenario, option, and from DDP's group and the gradients of a bucket to its result. Above each, its bug.
_RESULTS: dict[str, tuple[str, str, Callable[[Any, Tensor], Tensor]]] = {
    # Ignores the group that it is given.
    "averages_over_all_ranks": ("group_of_pairs", "default", lambda group, g: mean_over(None, g)),
    # Loses 29 bits.
    "float64_through_float32": ("other_dtypes", "default", lambda group, g: mean_over(group, g.float()).to(g.dtype)),
    # Values below 2^-14 become 0.
    "float16_flushes_subnormals": (
        "other_dtypes",
        "default",
        lambda group, g: mean_over(group, torch.where(g.abs() < 2.0**-14, torch.zeros_like(g), g)),
    ),
    # Leaves buckets of other dtypes local.
    "only_float32_is_averaged": (
        "mixed_dtypes",
        "default",
        lambda group, g: mean_over(group, g) if g.dtype == torch.float32 else g,
    ),
    # Correct without torch.compile.
    "local_when_compiled": (
        "compiled_no_optimization",
        "default",
        lambda group, g: g if dynamo.config.optimize_ddp == "no_optimization" else mean_over(group, g),
    ),
}
for _name, (_scenario, _option, _result) in _RESULTS.items():
    globals()[_name] = _average(_of_gradients(_result), _name)
    CAUGHT_BY[f"{_HERE}:{_name}"] = (_scenario, _option)


@caught_by("other_dtypes", "static_graph")
def bf16_stays_local_under_static_graph(ddp: Any, group: Any, bucket: GradBucket) -> Tensor:
    """Does not exchange bfloat16 parameters under static_graph."""
    if ddp.static_graph and bucket.buffer().dtype == torch.bfloat16:
        return bucket.buffer()
    return mean_over(group, bucket.buffer())


@caught_by("frozen")
def gives_frozen_parameters_zeros(ddp: Any, group: Any, bucket: GradBucket) -> Tensor:
    """Gives frozen parameters gradients of zero, so that weight decay moves them."""
    for parameter in ddp.module.parameters():
        if not parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    return mean_over(group, bucket.buffer())


@caught_by("no_sync")
def divides_by_the_passes_too(ddp: Any) -> Mean:
    """Delivers the mean of the micro-batches instead of their sum."""
    passes, inner = [1], ddp.no_sync

    def counting() -> Any:
        passes[0] += 1
        return inner()

    ddp.no_sync = counting

    def mean(group: Any, bucket: GradBucket) -> Tensor:
        out = mean_over(group, bucket.buffer()) / passes[0]
        passes[0] = 1
        return out

    return mean


@caught_by("strided")
def writes_back_by_rows(group: Any, bucket: GradBucket) -> Tensor:
    """Takes each gradient as its parameter is stored, and concatenates the rows, not what is stored."""
    pairs = zip(bucket.gradients(), bucket.parameters(), strict=True)
    rows = [gradient.as_strided(weight.shape, weight.stride()).flatten() for gradient, weight in pairs]
    return mean_over(group, torch.cat(rows))


@caught_by("synced_twice")
def forgets_what_was_held(ddp: Any) -> Mean:
    """Subtracts what it delivered in the previous pass."""
    before: dict[int, Tensor] = {}

    def mean(group: Any, bucket: GradBucket) -> Tensor:
        out = mean_over(group, bucket.buffer() - before.get(bucket.index(), torch.zeros(())))
        before[bucket.index()] = out.clone()
        return out

    return mean


@caught_by("grads_kept")
def does_not_zero_what_is_kept(ddp: Any) -> Mean:
    """zero_grad(set_to_none=False) does nothing."""
    inner = ddp.zero_grad
    ddp.zero_grad = lambda set_to_none=True: inner() if set_to_none else None
    return lambda group, bucket: mean_over(group, bucket.buffer())


@caught_by("join")
def divides_by_those_with_data(group: Any, bucket: GradBucket) -> Tensor:
    """Does not count ranks that send zeros."""
    counted = bucket.buffer().any().float()
    distributed.all_reduce(counted, group=group)
    out = bucket.buffer() / counted.clamp(min=1)
    distributed.all_reduce(out, group=group)
    return out


def _full_rank(name: str, **changes: Any) -> Hook:
    """PowerSGD at full rank with changed fields of its state."""

    def build(ddp: Any) -> tuple[Any, Any]:
        assert POWERSGD_FULL_RANK.build is not None
        state, hook = POWERSGD_FULL_RANK.build(ddp)
        for field, value in changes.items():
            setattr(state, field, value)
        return state, hook

    return replace(POWERSGD_FULL_RANK, name=f"{_HERE}:{name}", build=build)


for _name, _scenario, _changes in (
    # Ignores DDP's group.
    ("powersgd_over_all_ranks", "group_of_pairs", {"process_group": None}),
    # Loses the last direction of matrices with twelve rows or columns.
    ("powersgd_that_loses_a_direction", "no_sync", {"matrix_approximation_rank": 11}),
    # Delivers the right means but compresses nothing.
    ("powersgd_that_does_not_begin", "join", {"start_powerSGD_iter": 100}),
):
    globals()[_name] = _full_rank(_name, **_changes)
    CAUGHT_BY[f"{_HERE}:{_name}"] = (_scenario, "default")


def _fed_back(scenario: str) -> Callable[[Callable[[Any, int], None]], Hook]:
    """PowerSGD of rank 1 whose state is tampered with before each bucket."""

    def enter(tamper: Callable[[Any, int], None]) -> Hook:
        powersgd = HOOKS["powersgd_rank1"]

        def build(ddp: Any) -> tuple[Any, Any]:
            assert powersgd.build is not None
            state, hook = powersgd.build(ddp)

            def tampering(state: Any, bucket: GradBucket) -> Future[Tensor]:
                if bucket.index() in state.error_dict:
                    tamper(state, bucket.index())
                future: Future[Tensor] = hook(state, bucket)
                return future

            return state, tampering

        hook = replace(powersgd, name=f"{_HERE}:{tamper.__name__}", build=build)
        CAUGHT_BY[hook.name] = (scenario, "default")
        return hook

    return enter


@_fed_back("no_sync")
def powersgd_that_forgets(state: Any, bucket: int) -> None:
    """Remembers what it leaves out but does not use the memory."""
    state.error_dict[bucket].zero_()


@_fed_back("join")
def powersgd_that_remembers_too_much(state: Any, bucket: int) -> None:
    """On one rank, its memory is a thousandth too large."""
    if distributed.get_rank() == 0:
        state.error_dict[bucket].mul_(1.001)


@_fed_back("group_of_pairs")
def powersgd_with_memories_swapped(state: Any, bucket: int) -> None:
    """Swaps the memories of the first two elements of the bucket."""
    state.error_dict[bucket][:2] = state.error_dict[bucket][:2].flip(0)


@_fed_back("unused_by_rank_bucket_view")
def powersgd_that_forgets_what_a_rank_did_not_use(state: Any, bucket: int) -> None:
    """Loses its memory of the last parameters in the bucket."""
    state.error_dict[bucket][-100:] = 0


@caught_by("group_of_pairs")
def divides_by_all_ranks(group: Any, bucket: GradBucket) -> Tensor:
    """Sums over its group but divides by all ranks."""
    return mean_over(group, bucket.buffer(), distributed.get_world_size())


@caught_by("unused_by_rank")
def leaves_unused_alone(group: Any, bucket: GradBucket) -> Tensor:
    """Leaves a rank its zeros for parameters that it has not used."""
    unused = [not gradient.any() for gradient in bucket.gradients()]
    out = mean_over(group, bucket.buffer())
    first = 0
    for gradient, skipped in zip(bucket.gradients(), unused, strict=True):
        if skipped:
            out[first : first + gradient.numel()] = 0
        first += gradient.numel()
    return out


@caught_by("delayed")
def doubles_what_is_delayed(ddp: Any) -> Mean:
    """Delivers the other gradients correctly."""

    def double(gradient: Tensor) -> Tensor:
        ddp._delay_grad_buffer.mul_(2)
        return gradient

    ddp.module.weights[0].register_hook(double)
    return lambda group, bucket: mean_over(group, bucket.buffer())


@caught_by("manual_finalization")
def finalises_something_else(ddp: Any) -> Mean:
    """Multiplies an averaged gradient when the backward pass is finalised."""
    inner = ddp.finalize_backward

    def finalise() -> None:
        inner()
        ddp.module.weights[3].grad.mul_(distributed.get_world_size())

    ddp.finalize_backward = finalise
    return lambda group, bucket: mean_over(group, bucket.buffer())


@caught_by("other_dtypes")
def float64_one_ulp_off(group: Any, bucket: GradBucket) -> Tensor:
    """One element is four floats away, to exceed the bound at three ranks."""
    out = mean_over(group, bucket.buffer())
    for _ in range(4):
        out[1] = out[1].nextafter(out[1] * 2)
    return out


@caught_by("other_dtypes")
def bfloat16_divides_by_the_wrong_number(group: Any, bucket: GradBucket) -> Tensor:
    """Divides by one rank too many when gradients are in 16 bits."""
    out = mean_over(group, bucket.buffer())
    n = distributed.get_world_size(group)
    return out * (n / (n + 1)) if out.dtype == torch.bfloat16 else out


# ---- updates

UPDATES: list[Update] = []


def update(hook: str = _ALLREDUCE) -> Callable[[Begin], Update]:
    def enter(begin: Begin) -> Update:
        UPDATES.append(Update(name=f"{_HERE}:{begin.__name__}", begin=begin, hook=hook))
        return UPDATES[-1]

    return enter


# From a bucket and what steps with its gradients to the bucket's result.
Order = Callable[[Any, GradBucket, Callable[[], None]], Future[Tensor]]


def stepping(order: Order) -> Update:
    def begin(ddp: Any, kind: Any, settings: Mapping[str, Any]) -> Callable[[], None]:
        from torch.distributed.optim import as_functional_optim

        functional = as_functional_optim(kind, **settings)

        def hook(state: Any, bucket: GradBucket) -> Future[Tensor]:
            def step() -> None:
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
                    functional.step_param(parameter, gradient)

            return order(state, bucket, step)

        ddp.register_comm_hook(None, hook)
        return lambda: None

    begin.__name__ = order.__name__
    return update()(begin)


@stepping
def steps_before_the_all_reduce(state: Any, bucket: GradBucket, step: Callable[[], None]) -> Future[Tensor]:
    """Steps with the rank's own gradient."""
    step()
    return default_hooks.allreduce_hook(state, bucket)


@stepping
def steps_before_the_all_reduce_is_done(state: Any, bucket: GradBucket, step: Callable[[], None]) -> Future[Tensor]:
    """Steps with what is in the bucket by then: its own gradient, on a rank that is early."""
    future = default_hooks.allreduce_hook(state, bucket)
    step()
    return future


@stepping
def skips_the_last_bucket(state: Any, bucket: GradBucket, step: Callable[[], None]) -> Future[Tensor]:
    """Skips the bucket with the first layers."""

    def after(future: Any) -> Tensor:
        if not bucket.is_last():
            step()
        return bucket.buffer()

    stepped: Future[Tensor] = default_hooks.allreduce_hook(state, bucket).then(after)
    return stepped


@update()
def steps_twice_as_far(ddp: Any, kind: Any, settings: Mapping[str, Any]) -> Callable[[], None]:
    """Doubles the learning rate."""
    ddp._register_fused_optim(kind, **{**settings, "lr": 2 * settings["lr"]})
    return lambda: None


@update()
def steps_with_bf16(ddp: Any, kind: Any, settings: Mapping[str, Any]) -> Callable[[], None]:
    """Rounds to bfloat16 but claims the gradients' own dtype."""

    def rounded(state: Any, bucket: GradBucket) -> Future[Tensor]:
        bucket.buffer().copy_(bucket.buffer().bfloat16())
        return default_hooks.allreduce_hook(state, bucket)

    from torch.distributed.optim import as_functional_optim

    state = overlap._OptimizerHookState(as_functional_optim(kind, **settings))
    ddp.register_comm_hook(None, overlap._hook_then_optimizer(rounded, state))
    return lambda: None


@update(hook="none")
def zero_does_not_tell_the_others(ddp: Any, kind: Any, settings: Mapping[str, Any]) -> Callable[[], None]:
    """Each rank updates its share and does not send it to the others."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=kind, foreach=False, **settings)
    optimizer._sync_params = lambda: None  # type: ignore[attr-defined]  # its types do not have it
    return optimizer.step


def _muon_of_flat_shards(ddp: Any, kind: Any, settings: Mapping[str, Any]) -> Callable[[], None]:
    """Each rank orthogonalises its half of the rows of each matrix, as of a parameter that was flattened and cut."""
    from torch import distributed, nn

    ranks, rank = distributed.get_world_size(), distributed.get_rank()
    matrices = [p for p in ddp.parameters() if p.ndim == 2 and len(p) >= ranks]
    small = [p for p in ddp.parameters() if p.ndim == 2 and len(p) < ranks]
    others = [p for p in ddp.parameters() if p.ndim != 2]
    parts = [nn.Parameter(p.detach().tensor_split(ranks)[rank].clone()) for p in matrices]
    optimizers = (kind([*parts, *small], lr=0.001), torch.optim.AdamW(others, lr=0.0001, fused=True))

    def step() -> None:
        for p, part in zip(matrices, parts, strict=True):
            assert p.grad is not None
            part.grad = p.grad.tensor_split(ranks)[rank].clone()
        for optimizer in optimizers:
            optimizer.step()
        for p, part in zip(matrices, parts, strict=True):
            rows = [torch.empty_like(cut) for cut in p.detach().tensor_split(ranks)]
            rows[rank].copy_(part.detach())
            for source, cut in enumerate(rows):
                distributed.broadcast(cut, source)
            p.data.copy_(torch.cat(rows))

    return step


MUON_OF_FLAT_SHARDS = Update(
    name=f"{_HERE}:MUON_OF_FLAT_SHARDS", begin=_muon_of_flat_shards, hook="none", optimizers=("muon",)
)
UPDATES.append(MUON_OF_FLAT_SHARDS)


# ---- local SGD


def begins_a_step_late(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Switches to its group one step late."""
    if state.iter == state.start_localSGD_iter:
        state.iter += bucket.is_last()
        return default_hooks.allreduce_hook(None, bucket)  # type: ignore[arg-type]
    return post_localSGD_hook(state, bucket)


def never_leaves_the_world(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Never switches to its group."""
    return default_hooks.allreduce_hook(None, bucket)  # type: ignore[arg-type]


def always_averages_in_its_group(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Uses its group from the first step on."""
    return default_hooks.allreduce_hook(state.subgroup, bucket)


LOCAL_HOOKS = (begins_a_step_late, never_leaves_the_world, always_averages_in_its_group)


class AveragesAStepLate(PeriodicModelAverager):
    """Averages one step late."""

    def __init__(self, period: int, warmup_steps: int) -> None:
        super().__init__(period, warmup_steps + 1)


class AveragesEveryStep(PeriodicModelAverager):
    """Ignores the period."""

    def average_parameters(self, params: Any) -> None:
        self.step = self.warmup_steps
        super().average_parameters(params)


class AddsInsteadOfAveraging(PeriodicModelAverager):
    """Sums the parameters."""

    def average_parameters(self, params: Any) -> None:
        params = list(params)
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            with torch.no_grad():
                for parameter in params:
                    parameter.mul_(distributed.get_world_size())
        super().average_parameters(params)


AVERAGERS = (AveragesAStepLate, AveragesEveryStep, AddsInsteadOfAveraging)

# ---- buffer scenarios whose claim contradicts their DDP arguments

claims_to_send_and_does_not = BufferScenario(
    name=f"{_HERE}:claims_to_send_and_does_not", arguments={"broadcast_buffers": False}, from_rank_0=True
)
sends_and_claims_not_to = BufferScenario(name=f"{_HERE}:sends_and_claims_not_to")
BUFFERS = (claims_to_send_and_does_not, sends_and_claims_not_to)
