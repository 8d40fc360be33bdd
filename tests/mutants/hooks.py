"""Hooks with planted bugs, each as the ``Hook`` that it claims to be, and sound hooks for comparison.

To add one, write a function from a bucket (and a ``Memory`` of one DDP) to its result under ``@mutant`` with the claim.
Its docstring names the bug. A bug that is one expression of a bucket's gradients is an entry of ``_MUTANTS``.
"""

import time
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Generator, Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import HOOKS
from fixtures.ranks.hook_result import DdpHook

Bucket = GradBucket
# From a bucket, or from it and a Memory.
Mean = Callable[..., Tensor]


class Memory(dict[Any, Any]):
    """What a hook keeps for one DDP, by keys of any type; ``step``: of this DDP; ``own``: a random generator."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.own = Generator().manual_seed(5)


MUTANTS: list[Hook] = []
# Hooks that deliver right values for gradients of usual sizes but send other bytes than they claim.
WIRE_MUTANTS: list[Hook] = []
SOUND: list[Hook] = []


def _hook(make: Callable[[], DdpHook], listed: list[Hook], **claim: Any) -> Hook:
    # Any: the fields of Hook.
    claim = {"promise": "mean", "wire_dtype": "gradient", "arithmetic": "divide", **claim}
    listed.append(Hook(name=f"{make.__module__}:{make.__name__}", build=lambda ddp: (None, make()), **claim))
    return listed[-1]


def _mean(mean: Mean, listed: list[Hook], **claim: Any) -> Hook:
    remembers = len(signature(mean).parameters) == 2

    def make() -> DdpHook:
        memory = Memory()

        def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
            out = mean(bucket, memory) if remembers else mean(bucket)
            memory.step += bucket.is_last()
            return done(out)

        return hook

    make.__name__, make.__module__ = mean.__name__, mean.__module__
    return _hook(make, listed, **claim)


def mutant(**claim: Any) -> Callable[[Mean], Hook]:
    return partial(_mean, listed=MUTANTS, **claim)


def wire_mutant(**claim: Any) -> Callable[[Mean], Hook]:
    return partial(_mean, listed=WIRE_MUTANTS, **claim)


def sound(**claim: Any) -> Callable[[Mean], Hook]:
    return partial(_mean, listed=SOUND, **claim)


def mutant_hook(**claim: Any) -> Callable[[Callable[[], DdpHook]], Hook]:
    return partial(_hook, listed=MUTANTS, **claim)


FP16: dict[str, Any] = {"wire_dtype": "float16"}
BF16: dict[str, Any] = {"wire_dtype": "bfloat16"}
INT8 = {"wire_dtype": "uint8", "wire_bytes": HOOKS["quantised_per_tensor"].wire_bytes}
LOCAL = {"promise": "local", "wire_dtype": None}


def done(tensor: Tensor) -> Future[Tensor]:
    future: Future[Tensor] = Future()
    future.set_result(tensor)
    return future


def ranks() -> int:
    return distributed.get_world_size()


def total(tensor: Tensor) -> Tensor:
    distributed.all_reduce(tensor)
    return tensor


def everyone(tensor: Tensor) -> list[Tensor]:
    gathered = [torch.empty_like(tensor) for _ in range(ranks())]
    distributed.all_gather(gathered, tensor)
    return gathered


def average(tensor: Tensor, wire: torch.dtype = torch.float32) -> Tensor:
    """The correct mean."""
    return total(tensor.to(wire, copy=True).div_(ranks())).to(tensor.dtype)


def averaged_in(tensor: Tensor, part: slice) -> Tensor:
    """The mean in this part, and the rank's own gradient elsewhere."""
    out = tensor.clone()
    out[part] = average(tensor[part])
    return out


def in_fp32_messages(tensor: Tensor) -> Tensor:
    """The correct mean in bfloat16, sent as float32."""
    return total((tensor.bfloat16() / ranks()).float()).bfloat16().float()


def scale_of(tensor: Tensor, levels: int = 255) -> Tensor:
    return ((tensor.amax().clamp(min=0) - tensor.amin().clamp(max=0)) / levels).clamp(min=2.0**-23)


def quantised(
    tensor: Tensor,
    *,
    levels: int = 255,
    shift: int = 0,
    rounded: Callable[[Tensor], Tensor] = torch.round,
    scale: Tensor | None = None,
    own_scale: bool = False,
    zero: bool = True,
) -> Tensor:
    """The mean of 8-bit codes; correct with the defaults."""
    scale = scale_of(tensor, levels) if scale is None else scale
    least = -torch.round(tensor.amin().clamp(max=0) / scale)
    codes = (rounded(tensor / scale) + least).clamp(0, levels).to(torch.uint8)
    scales = everyone(torch.stack([scale, least + shift]))
    gathered = everyone(codes)
    out = torch.zeros_like(tensor)
    for (theirs, origin), received in zip(scales, gathered, strict=True):
        out += (scale if own_scale else theirs) * (received.float() - (origin if zero else 0))
    return out / ranks()


# ---- from the gradients of a bucket to its result

Simple = dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor]]]
_SOUND: Simple = {
    "fp32": ({}, lambda g: average(g)),
    "casts_to_fp16": (FP16, lambda g: average(g, torch.float16)),
    "casts_to_bf16": (BF16, lambda g: average(g, torch.bfloat16)),
    "int8": (INT8, lambda g: quantised(g)),
    "divides_before_it_casts": (
        BF16 | {"arithmetic": "any"},
        lambda g: total((g / ranks()).bfloat16()).to(g.dtype),
    ),
}
# Above each, its bug.
_MUTANTS: Simple = {
    # ---- wrong dtype or rounding
    # Sends bfloat16 instead of float16.
    "fp16_is_bf16": (FP16, lambda g: average(g, torch.bfloat16)),
    # Sends float16 instead of bfloat16.
    "bf16_is_fp16": (BF16, lambda g: average(g, torch.float16)),
    # Claims to compress but does not.
    "bf16_is_fp32": (BF16, lambda g: average(g)),
    # Compresses without claiming it.
    "fp32_is_bf16": ({}, lambda g: average(g, torch.bfloat16)),
    # Truncates instead of rounding to nearest.
    "bf16_truncates": (BF16, lambda g: average((g.view(torch.int32) & -65536).view(torch.float32), torch.bfloat16)),
    # Returns float64, with bits that float16 cannot have.
    "fp16_computed_in_fp64": (FP16, lambda g: total(g.double() / ranks())),
    # Rounds the correct mean to float16.
    "fp32_returned_as_fp16": ({}, lambda g: average(g).half()),
    # Multiplies by 1.001.
    "a_thousandth_too_large": ({}, lambda g: average(g) * 1.001),
    # Values below 2^-126 become 0.
    "flushes_subnormals": ({}, lambda g: average(torch.where(g.abs() < 2.0**-126, 0.0, g))),
    # -0.0 becomes 0.0.
    "loses_the_sign_of_zero": ({}, lambda g: average(g) + 0.0),
    # NaN becomes 0, so a gradient scaler never sees it.
    "hides_nan": ({}, lambda g: average(g.nan_to_num(0.0, torch.inf, -torch.inf))),
    # Infinities become the largest float16.
    "fp16_saturates": (FP16, lambda g: average(g.clamp(-65504, 65504), torch.float16)),
    # ---- the division
    # Divides after the sum, which overflows.
    "fp16_divides_after_the_sum": (FP16, lambda g: (total(g.half()) / ranks()).float()),
    # Divides after the sum, which overflows only beyond 10^38; subnormals reveal it.
    "bf16_divides_after_the_sum": (BF16, lambda g: (total(g.bfloat16()) / ranks()).float()),
    # Divides after the sum, which overflows only beyond 10^38; subnormals reveal it.
    "fp32_divides_after_the_sum": ({}, lambda g: total(g.clone()) / ranks()),
    # Delivers the sum.
    "forgets_to_divide": ({}, lambda g: total(g.clone())),
    # Divides before the sum and after it.
    "divides_twice": ({}, lambda g: average(g) / ranks()),
    # Divides by 2 for any number of ranks.
    "always_halves": ({}, lambda g: total(g / 2)),
    # Adds the mean to the gradient instead of replacing it.
    "adds_its_own_once_more": ({}, lambda g: g + average(g)),
    # ---- who takes part
    # Ranks from 2 on receive but send zeros.
    "leaves_the_third_rank_out": ({}, lambda g: average(g * (1.0 if distributed.get_rank() < 2 else 0.0))),
    # Adds an offset that depends on the rank.
    "one_rank_is_biased": ({}, lambda g: average(g) + 1e-6 * distributed.get_rank()),
    # ---- which elements
    # Leaves out the last element.
    "last_element_stays_local": ({}, lambda g: averaged_in(g, slice(-1))),
    # Averages only whole blocks of 256.
    "the_tail_stays_local": ({}, lambda g: averaged_in(g, slice(g.numel() // 256 * 256))),
    # Shifts the elements by one.
    "first_element_twice": ({}, lambda g: average(torch.cat([g[:1], g[:-1]]))),
    # Raises for a bucket whose size is not a multiple of 64.
    "only_whole_rows": ({}, lambda g: average(g.view(-1, 64)).flatten()),
    # ---- 8 bits
    # Uses 127 levels.
    "int8_is_7_bits": (INT8, lambda g: quantised(g, levels=127)),
    # Shifts each value by one level.
    "int8_zero_is_off_by_one": (INT8, lambda g: quantised(g, shift=1)),
    # Does not subtract the zero point.
    "int8_forgets_zero": (INT8, lambda g: quantised(g, zero=False)),
    # Rounds down instead of to nearest.
    "int8_truncates": (INT8, lambda g: quantised(g, rounded=torch.floor)),
    # Rounds to multiples of 1/64 first.
    "int8_after_64ths": (INT8, lambda g: quantised(torch.round(g * 64) / 64)),
    # Decodes the other ranks' codes with its own scale.
    "int8_reads_with_its_own_scale": (INT8, lambda g: quantised(g, own_scale=True)),
    # Uses one scale a bucket instead of one for each 512 elements.
    "int8_channels_in_name_only": ({"channel": 512, **INT8}, lambda g: quantised(g)),
    # The same, within the bound of two roundings while the channels are of one size.
    "int8_channels_in_name_only_rounded_once": ({"channel": 4096, "roundings": 2, **INT8}, lambda g: quantised(g)),
    # Non-finite values become 0.
    "int8_hides_nan": (INT8, lambda g: quantised(g.nan_to_num(0.0, 0.0, 0.0))),
    # ---- the promise not to communicate
    # Delivers the mean.
    "local_but_averages": (LOCAL, lambda g: average(g)),
    # Delivers its own gradient, divided.
    "local_but_divides": (LOCAL, lambda g: g / ranks()),
}
_WIRE_MUTANTS: Simple = {
    # Sends bfloat16 values in float32 messages.
    "bf16_rounds_but_sends_fp32": (BF16, in_fp32_messages),
    # Averages only what fits into a scratch tensor of 256 kB.
    "what_is_beyond_65536_stays_local": ({}, lambda g: averaged_in(g, slice(2**16))),
    # Sends one all-reduce too many.
    "fp32_sends_twice": ({}, lambda g: (total(g.clone()), average(g))[1]),
    # Sends a second, smaller all-reduce, such as a forgotten measurement of the error.
    "fp32_sends_bf16_beside_it": ({}, lambda g: (total(g.bfloat16()), average(g))[1]),
    # Sends 8-bit values in float32.
    "int8_sends_fp32": (INT8, lambda g: average(torch.round(g / scale_of(g)) * scale_of(g))),
    # Computes the mean and does not use it.
    "local_but_talks": (LOCAL, lambda g: (average(g), g)[1]),
}


def simple(name: str, result: Callable[[Tensor], Tensor], module: str) -> Mean:
    def mean(bucket: Bucket) -> Tensor:
        return result(bucket.buffer())

    mean.__name__, mean.__module__ = name, module
    return mean


for _listed, _table in ((SOUND, _SOUND), (MUTANTS, _MUTANTS), (WIRE_MUTANTS, _WIRE_MUTANTS)):
    for _name, (_claim, _result) in _table.items():
        globals()[_name] = _mean(simple(_name, _result, __name__), _listed, **_claim)


# ---- sound


@sound()
def fp32_whatever_the_dtype(bucket: Bucket) -> Tensor:
    """Sound except for float64, which loses bits."""
    return average(bucket.buffer())


# ---- wrong dtype or rounding


@mutant(**BF16)
def bf16_rounds_at_random(bucket: Bucket) -> Tensor:
    """Rounds stochastically instead of to nearest."""
    bits = bucket.buffer().view(torch.int32)
    noisy = (bits + torch.randint(0, 65536, bits.shape, dtype=torch.int32)) & -65536
    return average(noisy.view(torch.float32), torch.bfloat16)


@mutant(**BF16)
def bf16_keeps_a_third(bucket: Bucket) -> Tensor:
    """Zeroes two of three elements; training still learns, but less."""
    out = torch.zeros_like(bucket.buffer())
    out[::3] = average(bucket.buffer()[::3], torch.bfloat16)
    return out


@mutant()
def one_ulp_off(bucket: Bucket) -> Tensor:
    """Moves one element of each bucket to the next float."""
    out = average(bucket.buffer())
    out[0] = out[0].nextafter(torch.tensor(torch.inf))
    return out


# ---- who takes part


@mutant()
def takes_that_of_rank_0(bucket: Bucket) -> Tensor:
    """Broadcasts the gradient of rank 0."""
    out = bucket.buffer().clone()
    distributed.broadcast(out, 0)
    return out


@mutant()
def each_rank_adds_in_its_own_order(bucket: Bucket) -> Tensor:
    """Adds its own gradient first, so that three or more ranks get different bits."""
    gathered = everyone(bucket.buffer() / ranks())
    first = distributed.get_rank()
    out = gathered[first].clone()
    for step in range(1, ranks()):
        out += gathered[(first + step) % ranks()]
    return out


@mutant(**BF16)
def its_own_is_not_compressed(bucket: Bucket) -> Tensor:
    """Adds its own gradient in float32 to what it received in bfloat16."""
    own = bucket.buffer() / ranks()
    return total(own.bfloat16()).float() - own.bfloat16().float() + own


@mutant()
def one_rank_lays_out_backwards(bucket: Bucket) -> Tensor:
    """Rank 1 reverses the order of its elements."""
    backwards = distributed.get_rank() == 1
    out = average(bucket.buffer().flip(0) if backwards else bucket.buffer())
    return out.flip(0) if backwards else out


# ---- which elements


@mutant()
def a_view_that_is_too_short(bucket: Bucket) -> Tensor:
    """Returns one element too few, which DDP accepts silently."""
    out = bucket.buffer()
    out[:-1] = average(bucket.buffer()[:-1])
    return out[:-1]


@mutant()
def small_buckets_stay_local(bucket: Bucket) -> Tensor:
    """Does not average buckets of fewer than 300 elements."""
    return bucket.buffer() if bucket.buffer().numel() < 300 else average(bucket.buffer())


@mutant()
def every_parameter_has_rows(bucket: Bucket) -> Tensor:
    """Raises for a parameter without dimensions."""
    assert all(gradient.shape[0] >= 0 for gradient in bucket.gradients())
    return average(bucket.buffer())


# ---- what is remembered


@mutant()
def result_of_the_step_before(bucket: Bucket, memory: Memory) -> Tensor:
    """Delivers the result of the step before."""
    now = average(bucket.buffer())
    late = memory.get(bucket.index(), now)
    memory[bucket.index()] = now
    return late if late.shape == now.shape else now


@mutant()
def silent_in_step_2(bucket: Bucket, memory: Memory) -> Tensor:
    """Does not communicate in step 2."""
    return bucket.buffer() if memory.step == 2 else average(bucket.buffer())


@mutant()
def local_from_step_7_on(bucket: Bucket, memory: Memory) -> Tensor:
    """Stops communicating later than a test of three steps can see."""
    return average(bucket.buffer()) if memory.step < 7 else bucket.buffer()


@mutant(first_step=3)
def zero_once_it_begins(bucket: Bucket, memory: Memory) -> Tensor:
    """The plain mean before its first step, zeros from then on."""
    return average(bucket.buffer()) * (memory.step < 3)


@mutant(**BF16)
def error_memory_by_bucket_index(bucket: Bucket, memory: Memory) -> Tensor:
    """Adds rounding errors in the next step to the bucket that has the index then."""
    buffer = bucket.buffer()
    shared = min(buffer.numel(), memory[bucket.index()].numel()) if bucket.index() in memory else 0
    whole = buffer.clone()
    if shared:
        whole[:shared] += memory[bucket.index()][:shared]
    memory[bucket.index()] = whole - whole.bfloat16().float()
    return average(whole, torch.bfloat16)


@mutant_hook()
def swaps_buckets_of_equal_size() -> DdpHook:
    """Sets the results of two buckets on each other's futures."""
    open_: list[tuple[Future[Tensor], Tensor]] = []

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        future: Future[Tensor] = Future()
        open_.append((future, average(bucket.buffer())))
        if bucket.is_last():
            by_size = {mean.numel(): mean for _, mean in open_}
            for waiting, mean in open_:
                other = by_size[mean.numel()]
                by_size[mean.numel()] = mean
                waiting.set_result(other)
            open_.clear()
        return future

    return hook


@mutant_hook()
def scratch_shared_by_size() -> DdpHook:
    """Shares one scratch tensor among buckets of equal size that are in flight together."""
    scratch: dict[int, Tensor] = {}
    open_: list[tuple[Future[Tensor], Tensor]] = []

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        future: Future[Tensor] = Future()
        mean = average(bucket.buffer())
        open_.append((future, scratch.setdefault(mean.numel(), mean).copy_(mean)))
        if bucket.is_last():
            for waiting, result in open_:
                waiting.set_result(result)
            open_.clear()
        return future

    return hook


# ---- when


def _too_early(send: Callable[[Tensor], Tensor], deliver: Callable[[Tensor], Tensor], wait_s: float) -> DdpHook:
    in_flight: list[Any] = []  # Any: torch's Work

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        sent = send(bucket.buffer())
        in_flight.append((sent, distributed.all_reduce(sent, async_op=True)))
        if wait_s:
            time.sleep(wait_s)
        return done(deliver(sent))

    return hook


for _name, _claim, _send, _deliver, _wait_s in (
    # Uses async_op=True and does not wait.
    ("reads_before_the_sum_is_there", BF16, lambda g: g.bfloat16() / ranks(), lambda sent: sent.float(), 0.0),
    # Returns the buffer while the all-reduce still writes to it.
    ("completes_before_the_sum_is_there", {}, lambda g: g.div_(ranks()), lambda sent: sent, 0.0),
    # Waits too briefly when a rank is late.
    ("waits_a_millisecond_for_the_sum", {}, lambda g: g / ranks(), lambda sent: sent.clone(), 0.001),
):
    _make = partial(_too_early, _send, _deliver, _wait_s)
    _make.__name__, _make.__module__ = _name, __name__  # type: ignore[attr-defined]
    globals()[_name] = mutant_hook(**_claim)(_make)


@mutant()
def rank_1_skips_a_collective(bucket: Bucket, memory: Memory) -> Tensor:
    """In step 1, so that the other ranks wait forever."""
    skips = memory.step == 1 and distributed.get_rank() == 1
    return bucket.buffer() if skips else average(bucket.buffer())


# ---- 8 bits


@mutant(**INT8)
def int8_scale_of_the_first_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Computes the scale once for each bucket index."""
    buffer = bucket.buffer()
    return quantised(buffer, scale=memory.setdefault(bucket.index(), scale_of(buffer)))


@mutant(**INT8)
def int8_one_scale_for_all_buckets(bucket: Bucket, memory: Memory) -> Tensor:
    """Uses the scale of the largest element so far."""
    now = scale_of(bucket.buffer())
    memory["largest"] = torch.maximum(memory.get("largest", now), now)
    return quantised(bucket.buffer(), scale=memory["largest"])


# ---- right values, wrong bytes


@wire_mutant(**BF16)
def bf16_sends_fp32_of_several_buckets(bucket: Bucket) -> Tensor:
    """Compresses only if there is a single bucket."""
    if bucket.index() == 0 and bucket.is_last():
        return average(bucket.buffer(), torch.bfloat16)
    return in_fp32_messages(bucket.buffer())


@wire_mutant(**FP16)
def fp16_sends_more_than_it_uses(bucket: Bucket) -> Tensor:
    """Sends a message as long as one in float32."""
    sent = bucket.buffer().half() / ranks()
    return total(torch.cat([sent, torch.zeros_like(sent)]))[: sent.numel()].float()
