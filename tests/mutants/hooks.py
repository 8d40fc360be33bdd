"""Hooks with planted bugs, each as the ``Hook`` that it claims to be, and sound hooks for comparison.

To add one, write a function from a bucket (and a ``Memory`` of one DDP) to its result under ``@mutant`` with the claim.
Its docstring names the bug.
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
from fixtures.ranks.hooks.all_to_all import Bf16State, bf16_all_to_all_hook

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


FP16 = {"wire_dtype": "float16"}
BF16 = {"wire_dtype": "bfloat16"}
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
    return total(tensor.to(wire, copy=True).div_(ranks())).float()


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
    if scale is None:
        scale = ((tensor.amax().clamp(min=0) - tensor.amin().clamp(max=0)) / levels).clamp(min=2.0**-23)
    least = -torch.round(tensor.amin().clamp(max=0) / scale)
    codes = (rounded(tensor / scale) + least).clamp(0, levels).to(torch.uint8)
    scales = everyone(torch.stack([scale, least + shift]))
    gathered = everyone(codes)
    out = torch.zeros_like(tensor)
    for (theirs, origin), received in zip(scales, gathered, strict=True):
        out += (scale if own_scale else theirs) * (received.float() - (origin if zero else 0))
    return out / ranks()


# ---- sound


@sound()
def fp32(bucket: Bucket) -> Tensor:
    return average(bucket.buffer())


@sound()
def fp32_whatever_the_dtype(bucket: Bucket) -> Tensor:
    """Sound except for float64, which loses bits."""
    return average(bucket.buffer()).to(bucket.buffer().dtype)


@sound(**FP16)
def casts_to_fp16(bucket: Bucket) -> Tensor:
    return average(bucket.buffer(), torch.float16)


@sound(**BF16)
def casts_to_bf16(bucket: Bucket) -> Tensor:
    return average(bucket.buffer(), torch.bfloat16)


@sound(**INT8)
def int8(bucket: Bucket) -> Tensor:
    return quantised(bucket.buffer())


# ---- wrong dtype or rounding


class _SumsInBf16(Bf16State):
    def mean(self, received: Tensor) -> Tensor:
        total = received[0]
        for row in received[1:]:
            total = total + row
        return (total / len(received)).unsqueeze(0)


@mutant_hook(**BF16, arithmetic="sum_in_float32")
def bf16_all_to_all_forgets_the_float32_sum() -> DdpHook:
    """Rounds each partial sum to bfloat16, as an all-reduce does."""
    state = _SumsInBf16()
    return lambda _, bucket: bf16_all_to_all_hook(state, bucket)


@mutant(**FP16)
def fp16_is_bf16(bucket: Bucket) -> Tensor:
    """Sends bfloat16 instead of float16."""
    return average(bucket.buffer(), torch.bfloat16)


@mutant(**BF16)
def bf16_is_fp16(bucket: Bucket) -> Tensor:
    """Sends float16 instead of bfloat16."""
    return average(bucket.buffer(), torch.float16)


@mutant(**BF16)
def bf16_is_fp32(bucket: Bucket) -> Tensor:
    """Claims to compress but does not."""
    return average(bucket.buffer())


@mutant()
def fp32_is_bf16(bucket: Bucket) -> Tensor:
    """Compresses without claiming it."""
    return average(bucket.buffer(), torch.bfloat16)


@mutant(**BF16)
def bf16_truncates(bucket: Bucket) -> Tensor:
    """Truncates instead of rounding to nearest."""
    return average((bucket.buffer().view(torch.int32) & -65536).view(torch.float32), torch.bfloat16)


@mutant(**BF16)
def bf16_rounds_at_random(bucket: Bucket) -> Tensor:
    """Rounds stochastically instead of to nearest."""
    bits = bucket.buffer().view(torch.int32)
    noisy = (bits + torch.randint(0, 65536, bits.shape, dtype=torch.int32)) & -65536
    return average(noisy.view(torch.float32), torch.bfloat16)


@mutant(**FP16)
def fp16_computed_in_fp64(bucket: Bucket) -> Tensor:
    """Returns float64, with bits that float16 cannot have."""
    return total(bucket.buffer().double() / ranks())


@mutant(**BF16)
def bf16_keeps_a_third(bucket: Bucket) -> Tensor:
    """Zeroes two of three elements; training still learns, but less."""
    out = torch.zeros_like(bucket.buffer())
    out[::3] = average(bucket.buffer()[::3], torch.bfloat16)
    return out


@mutant()
def fp32_returned_as_fp16(bucket: Bucket) -> Tensor:
    """Rounds the correct mean to float16."""
    return average(bucket.buffer()).half()


@mutant()
def one_ulp_off(bucket: Bucket) -> Tensor:
    """Moves one element of each bucket to the next float."""
    out = average(bucket.buffer())
    out[0] = out[0].nextafter(torch.tensor(torch.inf))
    return out


@mutant()
def a_thousandth_too_large(bucket: Bucket) -> Tensor:
    """Multiplies by 1.001."""
    return average(bucket.buffer()) * 1.001


@mutant()
def flushes_subnormals(bucket: Bucket) -> Tensor:
    """Values below 2^-126 become 0."""
    return average(torch.where(bucket.buffer().abs() < 2.0**-126, 0.0, bucket.buffer()))


@mutant()
def loses_the_sign_of_zero(bucket: Bucket) -> Tensor:
    """-0.0 becomes 0.0."""
    return average(bucket.buffer()) + 0.0


@mutant()
def hides_nan(bucket: Bucket) -> Tensor:
    """NaN becomes 0, so a gradient scaler never sees it."""
    return average(bucket.buffer().nan_to_num(0.0, torch.inf, -torch.inf))


@mutant(**FP16)
def fp16_saturates(bucket: Bucket) -> Tensor:
    """Infinities become the largest float16."""
    return average(bucket.buffer().clamp(-65504, 65504), torch.float16)


# ---- the division


@mutant(**FP16)
def fp16_divides_after_the_sum(bucket: Bucket) -> Tensor:
    """Divides after the sum, which overflows."""
    return (total(bucket.buffer().half()) / ranks()).float()


@mutant(**BF16)
def bf16_divides_after_the_sum(bucket: Bucket) -> Tensor:
    """Divides after the sum, which overflows only beyond 10^38; subnormals reveal it."""
    return (total(bucket.buffer().bfloat16()) / ranks()).float()


@mutant()
def fp32_divides_after_the_sum(bucket: Bucket) -> Tensor:
    """Divides after the sum, which overflows only beyond 10^38; subnormals reveal it."""
    return total(bucket.buffer().clone()) / ranks()


@mutant()
def forgets_to_divide(bucket: Bucket) -> Tensor:
    """Delivers the sum."""
    return total(bucket.buffer().clone())


@mutant()
def divides_twice(bucket: Bucket) -> Tensor:
    """Divides before the sum and after it."""
    return average(bucket.buffer()) / ranks()


@mutant()
def always_halves(bucket: Bucket) -> Tensor:
    """Divides by 2 for any number of ranks."""
    return total(bucket.buffer() / 2)


@mutant()
def adds_its_own_once_more(bucket: Bucket) -> Tensor:
    """Adds the mean to the gradient instead of replacing it."""
    return bucket.buffer() + average(bucket.buffer())


# ---- who takes part


@mutant()
def takes_that_of_rank_0(bucket: Bucket) -> Tensor:
    """Broadcasts the gradient of rank 0."""
    out = bucket.buffer().clone()
    distributed.broadcast(out, 0)
    return out


@mutant()
def leaves_the_third_rank_out(bucket: Bucket) -> Tensor:
    """Ranks from 2 on receive but send zeros."""
    return average(bucket.buffer() * (1.0 if distributed.get_rank() < 2 else 0.0))


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
def one_rank_is_biased(bucket: Bucket) -> Tensor:
    """Adds an offset that depends on the rank."""
    return average(bucket.buffer()) + 1e-6 * distributed.get_rank()


@mutant()
def one_rank_lays_out_backwards(bucket: Bucket) -> Tensor:
    """Rank 1 reverses the order of its elements."""
    backwards = distributed.get_rank() == 1
    out = average(bucket.buffer().flip(0) if backwards else bucket.buffer())
    return out.flip(0) if backwards else out


# ---- which elements


@mutant()
def last_element_stays_local(bucket: Bucket) -> Tensor:
    """Leaves out the last element."""
    out = bucket.buffer().clone()
    out[:-1] = average(bucket.buffer()[:-1])
    return out


@mutant()
def first_element_twice(bucket: Bucket) -> Tensor:
    """Shifts the elements by one."""
    out = average(bucket.buffer())
    return torch.cat([out[:1], out[:-1]])


@mutant()
def a_view_that_is_too_short(bucket: Bucket) -> Tensor:
    """Returns one element too few, which DDP accepts silently."""
    out = bucket.buffer()
    out[:-1] = average(bucket.buffer()[:-1])
    return out[:-1]


@mutant()
def the_tail_stays_local(bucket: Bucket) -> Tensor:
    """Averages only whole blocks of 256."""
    out, whole = bucket.buffer().clone(), bucket.buffer().numel() // 256 * 256
    out[:whole] = average(bucket.buffer()[:whole])
    return out


@mutant()
def small_buckets_stay_local(bucket: Bucket) -> Tensor:
    """Does not average buckets of fewer than 300 elements."""
    return bucket.buffer() if bucket.buffer().numel() < 300 else average(bucket.buffer())


@mutant()
def every_parameter_has_rows(bucket: Bucket) -> Tensor:
    """Raises for a parameter without dimensions."""
    assert all(gradient.shape[0] >= 0 for gradient in bucket.gradients())
    return average(bucket.buffer())


@mutant()
def only_whole_rows(bucket: Bucket) -> Tensor:
    """Raises for a bucket whose size is not a multiple of 64."""
    return average(bucket.buffer().view(-1, 64)).flatten()


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


@mutant_hook(**BF16)
def reads_before_the_sum_is_there() -> DdpHook:
    """Uses async_op=True and does not wait."""
    in_flight: list[Any] = []  # Any: torch's Work

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        sent = bucket.buffer().bfloat16() / ranks()
        in_flight.append((sent, distributed.all_reduce(sent, async_op=True)))
        return done(sent.float())

    return hook


@mutant_hook()
def completes_before_the_sum_is_there() -> DdpHook:
    """Returns the buffer while the all-reduce still writes to it."""
    in_flight: list[Any] = []  # Any: torch's Work

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        sent = bucket.buffer().div_(ranks())
        in_flight.append(distributed.all_reduce(sent, async_op=True))
        return done(sent)

    return hook


@mutant_hook()
def waits_a_millisecond_for_the_sum() -> DdpHook:
    """Waits too briefly when a rank is late."""
    in_flight: list[Any] = []  # Any: torch's Work

    def hook(state: Any, bucket: Bucket) -> Future[Tensor]:
        sent = bucket.buffer() / ranks()
        in_flight.append((sent, distributed.all_reduce(sent, async_op=True)))
        time.sleep(0.001)
        return done(sent.clone())

    return hook


@mutant()
def rank_1_skips_a_collective(bucket: Bucket, memory: Memory) -> Tensor:
    """In step 1, so that the other ranks wait forever."""
    skips = memory.step == 1 and distributed.get_rank() == 1
    return bucket.buffer() if skips else average(bucket.buffer())


# ---- 8 bits


@mutant(**INT8)
def int8_is_7_bits(bucket: Bucket) -> Tensor:
    """Uses 127 levels."""
    return quantised(bucket.buffer(), levels=127)


@mutant(**INT8)
def int8_zero_is_off_by_one(bucket: Bucket) -> Tensor:
    """Shifts each value by one level."""
    return quantised(bucket.buffer(), shift=1)


@mutant(**INT8)
def int8_forgets_zero(bucket: Bucket) -> Tensor:
    """Does not subtract the zero point."""
    return quantised(bucket.buffer(), zero=False)


@mutant(**INT8)
def int8_truncates(bucket: Bucket) -> Tensor:
    """Rounds down instead of to nearest."""
    return quantised(bucket.buffer(), rounded=torch.floor)


@mutant(**INT8)
def int8_after_64ths(bucket: Bucket) -> Tensor:
    """Rounds to multiples of 1/64 first."""
    return quantised(torch.round(bucket.buffer() * 64) / 64)


@mutant(**INT8)
def int8_reads_with_its_own_scale(bucket: Bucket) -> Tensor:
    """Decodes the other ranks' codes with its own scale."""
    return quantised(bucket.buffer(), own_scale=True)


@mutant(**INT8)
def int8_scale_of_the_first_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Computes the scale once for each bucket index."""
    buffer = bucket.buffer()
    now = ((buffer.amax().clamp(min=0) - buffer.amin().clamp(max=0)) / 255).clamp(min=2.0**-23)
    return quantised(buffer, scale=memory.setdefault(bucket.index(), now))


@mutant(**INT8)
def int8_one_scale_for_all_buckets(bucket: Bucket, memory: Memory) -> Tensor:
    """Uses the scale of the largest element so far."""
    buffer = bucket.buffer()
    now = ((buffer.amax().clamp(min=0) - buffer.amin().clamp(max=0)) / 255).clamp(min=2.0**-23)
    memory["largest"] = torch.maximum(memory.get("largest", now), now)
    return quantised(buffer, scale=memory["largest"])


@mutant(channel=512, **INT8)
def int8_channels_in_name_only(bucket: Bucket) -> Tensor:
    """Uses one scale a bucket instead of one for each 512 elements."""
    return quantised(bucket.buffer())


@mutant(channel=4096, roundings=2, **INT8)
def int8_channels_in_name_only_rounded_once(bucket: Bucket) -> Tensor:
    """The same, within the bound of two roundings while the channels are of one size."""
    return quantised(bucket.buffer())


@mutant(**INT8)
def int8_hides_nan(bucket: Bucket) -> Tensor:
    """Non-finite values become 0."""
    return quantised(bucket.buffer().nan_to_num(0.0, 0.0, 0.0))


# ---- the promise not to communicate


@mutant(**LOCAL)
def local_but_averages(bucket: Bucket) -> Tensor:
    """Delivers the mean."""
    return average(bucket.buffer())


@mutant(**LOCAL)
def local_but_divides(bucket: Bucket) -> Tensor:
    """Delivers its own gradient, divided."""
    return bucket.buffer() / ranks()


# ---- right values, wrong bytes


@wire_mutant()
def what_is_beyond_65536_stays_local(bucket: Bucket) -> Tensor:
    """Averages only what fits into a scratch tensor of 256 kB."""
    out = bucket.buffer().clone()
    out[: 2**16] = average(bucket.buffer()[: 2**16])
    return out


@wire_mutant(**BF16)
def bf16_sends_fp32_of_several_buckets(bucket: Bucket) -> Tensor:
    """Compresses only if there is a single bucket."""
    if bucket.index() == 0 and bucket.is_last():
        return average(bucket.buffer(), torch.bfloat16)
    return total((bucket.buffer().bfloat16() / ranks()).float()).bfloat16().float()


@wire_mutant(**BF16)
def bf16_rounds_but_sends_fp32(bucket: Bucket) -> Tensor:
    """Sends bfloat16 values in float32 messages."""
    return total((bucket.buffer().bfloat16() / ranks()).float()).bfloat16().float()


@wire_mutant(**FP16)
def fp16_sends_more_than_it_uses(bucket: Bucket) -> Tensor:
    """Sends a message as long as one in float32."""
    sent = bucket.buffer().half() / ranks()
    return total(torch.cat([sent, torch.zeros_like(sent)]))[: sent.numel()].float()


@wire_mutant()
def fp32_sends_twice(bucket: Bucket) -> Tensor:
    """Sends one all-reduce too many."""
    total(bucket.buffer().clone())
    return average(bucket.buffer())


@wire_mutant()
def fp32_sends_bf16_beside_it(bucket: Bucket) -> Tensor:
    """Sends a second, smaller all-reduce, such as a forgotten measurement of the error."""
    total(bucket.buffer().bfloat16())
    return average(bucket.buffer())


@wire_mutant(**INT8)
def int8_sends_fp32(bucket: Bucket) -> Tensor:
    """Sends 8-bit values in float32."""
    buffer = bucket.buffer()
    scale = ((buffer.amax().clamp(min=0) - buffer.amin().clamp(max=0)) / 255).clamp(min=2.0**-23)
    return average(torch.round(buffer / scale) * scale)


@wire_mutant(**LOCAL)
def local_but_talks(bucket: Bucket) -> Tensor:
    """Computes the mean and does not use it."""
    average(bucket.buffer())
    return bucket.buffer()
