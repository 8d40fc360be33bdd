"""Hooks that deliver right gradients of usual sizes for a few steps, and have a side effect then or later.

To add one, write it under ``@caught_by`` with the check that must catch it and what it claims; see ``hooks.py``.
What is one expression is an entry of ``_RESULTS``, ``_BESIDES`` or ``_GROWS``.
SOUND_IN has sound hooks, each with the checks for which it is unusual.
"""

import gc
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from socket import AF_UNIX, socket
from threading import Event, Thread
from typing import Any

import numpy
import torch
from torch import Tensor, distributed
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from fixtures.gradients.cases import MANY_SHAPES
from fixtures.matrix.hook import Hook, whole
from fixtures.ranks.hook_result import DdpHook
from tests.mutants.hooks import (
    BF16,
    FP16,
    Bucket,
    Mean,
    Memory,
    _hook,
    _mean,
    average,
    averaged_in,
    done,
    everyone,
    in_fp32_messages,
    ranks,
    simple,
    total,
)

# Hook -> the check that catches it.
CAUGHT_BY: dict[str, str] = {}
# A sound hook and a check that it must pass.
SOUND_IN: list[tuple[Hook, str]] = []
# Hook -> arguments of that check which are not those of ``pytest perf``.
ASKED: dict[str, Mapping[str, object]] = {}
# Hook -> number of ranks: one where the fault needs no other rank, which takes a quarter of the time. Else two.
RANKS: dict[str, int] = {}


def caught_by(
    check: str, asked: Mapping[str, object] | None = None, /, *, ranks: int = 2, **claim: Any
) -> Callable[[Mean], Hook]:
    """asked, ranks: for ASKED and RANKS. claim: fields of Hook, hence Any."""

    def enter(mean: Mean) -> Hook:
        made: Hook = _mean(mean, [], **{"arithmetic": "any", **claim})
        CAUGHT_BY[made.name], ASKED[made.name], RANKS[made.name] = check, asked or {}, ranks
        return made

    return enter


def caught_by_hook(
    check: str, asked: Mapping[str, object] | None = None, /, *, ranks: int = 2
) -> Callable[[Callable[[DistributedDataParallel], DdpHook]], Hook]:
    """For a hook that is built with its DDP module."""

    def enter(make: Callable[[DistributedDataParallel], DdpHook]) -> Hook:
        name = f"{make.__module__}:{make.__name__}"
        CAUGHT_BY[name], ASKED[name], RANKS[name] = check, asked or {}, ranks
        return Hook(name=name, build=lambda ddp: (None, make(ddp)), promise="mean", wire_dtype="gradient")

    return enter


def sound_in(
    *checks: str, asked: Mapping[str, object] | None = None, ranks: int = 2, **claim: Any
) -> Callable[[Mean], Hook]:
    """asked, ranks: for ASKED and RANKS. claim: fields of Hook, hence Any."""

    def enter(mean: Mean) -> Hook:
        made: Hook = _enter_sound(_mean, checks, ranks, claim, mean)
        ASKED[made.name] = asked or {}
        return made

    return enter


def sound_hook_in(*checks: str, ranks: int = 2) -> Callable[[Callable[[], DdpHook]], Hook]:
    return partial(_enter_sound, _hook, checks, ranks, {})


# Any: a function that makes a Hook, and what it makes one of.
def _enter_sound(enter: Any, checks: tuple[str, ...], ranks: int, claim: dict[str, Any], function: Any) -> Hook:
    made: Hook = enter(function, [], **{"arithmetic": "any", **claim})
    SOUND_IN.extend((made, check) for check in checks)
    RANKS[made.name] = ranks
    return made


NOTHING: dict[str, Any] = {"promise": "nothing", "wire_dtype": None}
# Of ``hook_steps:many``, for what grows: its counts take steps of their own, after those whose gradients are compared.
FEW_STEPS = {"steps": 1}


# ---- from the gradients of a bucket to its result; above each, its bug

_RESULTS: dict[str, tuple[str, dict[str, Any], Callable[[Tensor], Tensor]]] = {
    # Clips values, which a loss scale reaches.
    "clips_at_a_million": ("hook_steps:check", {}, lambda g: average(g.clamp(-(2.0**20), 2.0**20))),
    # Averages only what its scratch tensor holds.
    "leaves_out_what_is_beyond_4_million": ("wire:large", {}, lambda g: averaged_in(g, slice(2**22))),
    # Averages the first 2^24 elements.
    "leaves_out_what_float32_cannot_count": ("wire:embedding", {}, lambda g: averaged_in(g, slice(2**24))),
    # Within the rounding of each element; the slope along the mean is off.
    "bf16_a_thousandth_too_large": ("wire:wire", BF16, lambda g: average(g * 1.001, torch.bfloat16)),
    # The same, half as far off.
    "bf16_half_a_thousandth_too_small": (
        "wire:large",
        {"ranks": 1, **BF16},
        lambda g: average(g * 0.9995, torch.bfloat16),
    ),
}
for _name, (_check, _claim, _result) in _RESULTS.items():
    globals()[_name] = caught_by(_check, **_claim)(simple(_name, _result, __name__))


# ---- a sound mean, and something besides; above each, why

_BESIDES: dict[str, Callable[[Bucket], object]] = {
    # For a shuffle.
    "seeds_torch": lambda bucket: torch.manual_seed(bucket.index()),
    # Which elements to log.
    "draws_from_numpy": lambda bucket: numpy.random.randint(10),
    # In which steps to log.
    "draws_from_random": lambda bucket: random.random(),
    # Computes in float64, and leaves it the default.
    "leaves_float64_the_default": lambda bucket: torch.set_default_dtype(torch.float64),
    # Makes its own computations faster.
    "flushes_subnormal_numbers": lambda bucket: torch.set_flush_denormal(True),
    # Turns gradients on for a computation of its own and not off again.
    "leaves_gradients_on": lambda bucket: torch.set_grad_enabled(True),
    # Turns it off for speed.
    "leaves_the_garbage_collector_off": lambda bucket: gc.disable(),
    # Takes a weight out of the training once its gradient is zero.
    "freezes_a_weight": lambda bucket: bucket.parameters()[0].requires_grad_(False),
}
# In every tenth step, with what it keeps.
_GROWS: dict[str, Callable[[Bucket], object]] = {
    # A writer of a log that waits for more.
    "starts_a_thread_in_every_tenth_step": lambda bucket: Thread(target=Event().wait, daemon=True).start(),
    # Reports to a monitor over a connection of its own each time.
    "opens_a_socket_in_every_tenth_step": lambda bucket: socket(AF_UNIX),
    # Samples for a plot.
    "keeps_a_bucket_in_every_tenth_step": lambda bucket: bucket.buffer().clone(),
}


def _with(act: Callable[[Bucket], object], name: str, *, every: int = 1) -> Mean:
    def mean(bucket: Bucket, memory: Memory) -> Tensor:
        if every == 1:
            act(bucket)
        elif bucket.is_last() and memory.step % every == every - 1:
            memory[len(memory)] = act(bucket)
        return average(bucket.buffer())

    mean.__name__, mean.__module__ = name, __name__
    return mean


for _name, _act in _BESIDES.items():
    globals()[_name] = caught_by("hook_steps:check")(_with(_act, _name))
for _name, _act in _GROWS.items():
    globals()[_name] = caught_by("hook_steps:many", FEW_STEPS, ranks=1)(_with(_act, _name, every=10))


# ---- what is not the hook's


@caught_by("hook_steps:check")
def decays_the_weights(bucket: Bucket) -> Tensor:
    """Shrinks the weights, as an optimizer does."""
    with torch.no_grad():
        bucket.parameters()[-1].mul_(0.999)
    return average(bucket.buffer())


@caught_by("hook_steps:check")
def regularises(bucket: Bucket) -> Tensor:
    """Adds a hundredth of the weights to their gradient."""
    out = average(bucket.buffer())
    return out + 0.01 * torch.cat([weight.detach().flatten() for weight in bucket.parameters()]).to(out.dtype)


@caught_by("hook_steps:check")
def flips_the_sign_of_a_zero_weight(bucket: Bucket) -> Tensor:
    """Writes back what it read, by way of float64, one element of it negated."""
    with torch.no_grad():
        first = bucket.parameters()[0].view(-1)
        first[-1] = -first[-1]
    return average(bucket.buffer())


@caught_by_hook("hook_steps:check")
def leaves_the_module_in_evaluation(ddp: DistributedDataParallel) -> DdpHook:
    """Looks at the module without dropout, and leaves it so."""

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        ddp.module.eval()
        return done(average(bucket.buffer()))

    return hook


# ---- what comes later, or grows


@caught_by("hook_steps:many", FEW_STEPS, ranks=1)
def leaves_files_open(bucket: Bucket) -> Tensor:
    """Writes a line a bucket to a file that it opens anew."""
    os.open(os.devnull, os.O_WRONLY)
    return average(bucket.buffer())


@caught_by("hook_steps:many", {"steps": 100})
def skips_every_hundredth_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Keeps the local gradient now and then."""
    return bucket.buffer() if memory.step % 100 == 99 else average(bucket.buffer())


@caught_by("hook_steps:many", FEW_STEPS)
def skips_every_hundredth_step_of_large_buckets(bucket: Bucket, memory: Memory) -> Tensor:
    """Keeps the local gradient now and then, of more than 4000 elements."""
    local = memory.step % 100 == 99 and bucket.buffer().numel() > 4000
    return bucket.buffer() if local else average(bucket.buffer())


@caught_by("hook_steps:many", {"steps": 10})
def leaves_bfloat16_local_from_step_4_on(bucket: Bucket, memory: Memory) -> Tensor:
    """Communicates in the first steps, and in float32 in all."""
    local = bucket.buffer().dtype == torch.bfloat16 and memory.step >= 4
    return bucket.buffer() if local else average(bucket.buffer())


@caught_by("hook_steps:many", ranks=1, **BF16)
def counts_in_16_bits(bucket: Bucket, memory: Memory) -> Tensor:
    """Counts its steps in a bfloat16, which stops at 256, and compresses a little less exactly from then on."""
    steps = memory.setdefault("steps", torch.zeros((), dtype=torch.bfloat16)).add_(bucket.is_last())
    out = average(bucket.buffer(), torch.bfloat16)
    return out if steps < 256 else (out * 1.5).to(out.dtype)


@caught_by("hook_steps:many", FEW_STEPS, ranks=1)
def keeps_every_gradient(bucket: Bucket, memory: Memory) -> Tensor:
    """Keeps each bucket."""
    memory[len(memory)] = bucket.buffer().clone()
    return average(bucket.buffer())


@caught_by_hook("hook_steps:many", FEW_STEPS, ranks=1)
def keeps_every_future(ddp: DistributedDataParallel) -> DdpHook:
    """Appends to a list what it would wait for at the end; the gradients are no tensors of Python."""
    kept: list[Future[Tensor]] = []

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        kept.append(done(average(bucket.buffer())))
        return kept[-1]

    return hook


@caught_by("hook_steps:many", FEW_STEPS, ranks=1)
def keeps_a_scalar_of_each_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Keeps the largest gradient of each step."""
    if bucket.is_last():
        memory[len(memory)] = bucket.buffer().max()
    return average(bucket.buffer())


@caught_by("hook_steps:many", FEW_STEPS, ranks=1)
def keeps_a_growing_log(bucket: Bucket, memory: Memory) -> Tensor:
    """Appends the first tenth of each bucket to one tensor."""
    tenth = bucket.buffer()[: -(-bucket.buffer().numel() // 10)].float()
    memory["log"] = torch.cat([memory.get("log", torch.zeros(0)), tenth])
    return average(bucket.buffer())


# ---- which values


@caught_by("hook_steps:check", **FP16)
def saturates_what_overflows(bucket: Bucket) -> Tensor:
    """Clamps finite values to the largest float16, and lets infinities pass."""
    values = bucket.buffer()
    return average(torch.where(values.isfinite(), values.clamp(-65504, 65504), values), torch.float16)


# ---- which result


@caught_by("hook_steps:check", **NOTHING)
def returns_the_end_of_a_larger_tensor(bucket: Bucket) -> Tensor:
    """Sends a header in front and returns a view behind it, which DDP reads from the header on."""
    return total(torch.cat([torch.zeros(2, dtype=bucket.buffer().dtype), bucket.buffer()]).div_(ranks()))[2:]


@caught_by("hook_steps:check", **NOTHING)
def returns_every_second_element(bucket: Bucket) -> Tensor:
    """Returns a view with gaps."""
    return total(bucket.buffer().repeat_interleave(2) / ranks())[::2]


# ---- how large, and how much


@caught_by_hook("wire:large")
def gives_up_after_300_ms(ddp: DistributedDataParallel) -> DdpHook:
    """Takes the step without a rank that is late."""
    in_flight: dict[int, Any] = {}  # Any: torch's Work

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        sent, arrived = bucket.buffer() / ranks(), Event()
        work = distributed.all_reduce(sent, async_op=True)
        in_flight[bucket.index()] = work, sent
        work.get_future().add_done_callback(lambda future: arrived.set())
        return done(sent.clone() if arrived.wait(0.3) else bucket.buffer())

    return hook


@caught_by("wire:large", ranks=1, delivers_within=8, **NOTHING)
def zeroes_what_is_beyond_4_million(bucket: Bucket) -> Tensor:
    """The same on all ranks, and nothing is promised."""
    out = average(bucket.buffer())
    out[2**22 :] = 0
    return out


@caught_by("wire:wire")
def delivers_large_buckets_a_step_late(bucket: Bucket, memory: Memory) -> Tensor:
    """Hides the time of an all-reduce behind the next step."""
    now = average(bucket.buffer())
    late = memory.get(bucket.index(), now)
    memory[bucket.index()] = now
    return late if now.numel() > 2**17 and late.shape == now.shape else now


@caught_by("wire:large", **BF16)
def bf16_rounds_the_sum_up(bucket: Bucket) -> Tensor:
    """More often than down: within the bound of each element, and right along the mean."""
    mean = torch.stack(everyone(bucket.buffer().bfloat16())).float().mean(0)
    return (mean + 2.0**-12 * mean.abs()).bfloat16().float()


@caught_by("wire:large", **BF16)
def sends_twice_the_bytes_of_a_large_bucket(bucket: Bucket) -> Tensor:
    """Falls back to float32 messages beyond a size."""
    if bucket.buffer().numel() < 2**20:
        return average(bucket.buffer(), torch.bfloat16)
    return in_fp32_messages(bucket.buffer())


@caught_by("wire:wire", **BF16)
def sends_float32_in_every_tenth_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Corrects its roundings now and then, and does not say so."""
    if memory.step % 10 == 0:
        return in_fp32_messages(bucket.buffer())
    return average(bucket.buffer(), torch.bfloat16)


@caught_by("wire:wire", **BF16)
def sends_float32_of_small_gradients(bucket: Bucket) -> Tensor:
    """As long as they are not as small as in practice it sends 16 bits."""
    largest = bucket.buffer().abs().max()
    distributed.all_reduce(largest, distributed.ReduceOp.MAX)
    if largest > 2.0**-6:
        return average(bucket.buffer(), torch.bfloat16)
    return in_fp32_messages(bucket.buffer())


@caught_by("hook_steps:check", {"shapes": MANY_SHAPES})
def has_memory_for_30_buckets(bucket: Bucket) -> Tensor:
    """Buckets beyond those for which it has made room get zeros."""
    out = average(bucket.buffer())
    return out if bucket.index() < 30 else torch.zeros_like(out)


# ---- sound, and unusual


@sound_in("hook_steps:check", "wire:wire", "wire:large", "wire:embedding")
def reduces_and_broadcasts(bucket: Bucket) -> Tensor:
    """By way of rank 0."""
    out = bucket.buffer().clone()
    distributed.reduce(out, 0)
    distributed.broadcast(out, 0)
    return out / ranks()


def gathered(gradients: Any, ranks: int) -> int:  # Any: Gradient
    """Bytes of an all-gather of 16 bits an element."""
    return ranks * (ranks - 1) * whole(2)(gradients)


@sound_in("hook_steps:check", "wire:wire", **BF16, wire_bytes=gathered)
def carries_bf16_as_bytes(bucket: Bucket) -> Tensor:
    """Gathers bfloat16 in messages of integers, for backends without bfloat16."""
    mine = (bucket.buffer() / ranks()).bfloat16().view(torch.uint8)
    received = [torch.empty_like(mine) for _ in range(ranks())]
    distributed.all_gather(received, mine)
    return torch.stack([one.view(torch.bfloat16).float() for one in received]).sum(0).to(bucket.buffer().dtype)


@sound_in("hook_steps:check", **FP16)
def fp16_adds_before_it_divides(bucket: Bucket) -> Tensor:
    """The sum of two gradients may overflow where their mean does not."""
    half = bucket.buffer().half()
    distributed.all_reduce(half)
    return half.to(bucket.buffer().dtype) / ranks()


@sound_in("hook_steps:check", "wire:wire", wire_dtype="gradient")
def reduces_shares_and_gathers_them(bucket: Bucket) -> Tensor:
    """A reduce-scatter, which over gloo sends as much as an all-reduce, and an all-gather."""
    padded = torch.nn.functional.pad(bucket.buffer(), (0, -bucket.buffer().numel() % ranks()))
    share = torch.empty_like(padded[: padded.numel() // ranks()])
    distributed.reduce_scatter_tensor(share, padded)
    distributed.all_gather_into_tensor(padded, share / ranks())
    return padded[: bucket.buffer().numel()].clone()


@sound_in("hook_steps:check", "wire:wire", **FP16)
def fp16_scales_before_it_casts(bucket: Bucket) -> Tensor:
    """Divides by a power of two first where a value would overflow, and multiplies afterwards."""
    largest = bucket.buffer().abs().max().float().nan_to_num(1.0, posinf=1.0)
    distributed.all_reduce(largest, distributed.ReduceOp.MAX)
    if largest < 2.0**15:
        return average(bucket.buffer(), torch.float16)
    return average(bucket.buffer().clone())


@sound_hook_in("hook_steps:check", "wire:wire")
def answers_after_the_last_bucket() -> DdpHook:
    """Sends all buckets in one message, in callbacks of futures that it completes together."""
    waiting: list[tuple[Future[Tensor], Bucket]] = []

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        future: Future[Tensor] = Future()
        waiting.append((future, bucket))
        if bucket.is_last():
            flat = total(torch.cat([one.buffer() for _, one in waiting]) / ranks())
            parts = flat.split([one.buffer().numel() for _, one in waiting])
            for (answer, _), part in zip(waiting, parts, strict=True):
                answer.set_result(part.clone())
            waiting.clear()
        return future

    return hook


@sound_in("hook_steps:check", **NOTHING)
def flushes_while_it_computes(bucket: Bucket) -> Tensor:
    torch.set_flush_denormal(True)
    out = average(bucket.buffer())
    torch.set_flush_denormal(False)
    return out


@sound_in("hook_steps:check")
def draws_from_its_own_generator(bucket: Bucket, memory: Memory) -> Tensor:
    """Shuffles with a generator of its own."""
    order = torch.randperm(bucket.buffer().numel(), generator=memory.own)
    return average(bucket.buffer()[order])[order.argsort()]


@sound_hook_in("hook_steps:many", ranks=1)
def remembers_fifty_steps() -> DdpHook:
    """Keeps the buckets of the last steps in a list that it empties when it is full."""
    kept: list[Tensor] = []

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        if len(kept) == 100:
            kept.clear()
        kept.append(bucket.buffer().clone())
        return done(average(bucket.buffer()))

    return hook


@sound_hook_in("hook_steps:check", "wire:wire")
def works_in_place() -> DdpHook:
    """Returns the bucket's own buffer."""
    return lambda state, bucket: done(total(bucket.buffer().div_(ranks())))
