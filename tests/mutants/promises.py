"""Hooks with error feedback, without bias, and with scales: planted bugs, and sound ones.

To add one, write it under ``@caught_by`` or ``@sound_in`` with the check and what it claims; see ``side_effects.py``.
What is one expression is an entry of ``_EXPRESSIONS``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, distributed

from fixtures.gradients.cases import UNEVEN
from fixtures.matrix.hook import Gradient, Hook, whole
from tests.mutants.hooks import Bucket, Mean, Memory, average, everyone, ranks, total
from tests.mutants.side_effects import FEW_STEPS, NOTHING, caught_by, sound_in

FEEDBACK: dict[str, Any] = {"promise": "nothing", "wire_dtype": None, "error_feedback": True}
UNBIASED: dict[str, Any] = {"promise": "unbiased", "wire_dtype": None}
GATHERED_FP16: dict[str, Any] = {
    "promise": "block_scaled",
    "wire_dtype": "float16",
    "relative_error": 2.0**-10,
    "channel": 128,
}


def gathered(gradients: Sequence[Gradient], ranks: int) -> int:
    """Bytes of an all-gather of a byte an element, and a scale."""
    return ranks * (ranks - 1) * whole(1)(gradients)


# ---- error feedback


def largest(values: Tensor, share: float) -> Tensor:
    """The values, with zeros but for this share of the largest."""
    least = values.abs().topk(max(1, int(share * values.numel()))).values[-1]
    return torch.where(values.abs() >= least, values, 0)


def sparse(
    bucket: Bucket,
    memory: Memory,
    *,
    share: float = 0.1,
    keep: Callable[[Tensor], Tensor] = lambda left: left,
    sent: float = 1.0,
) -> Tensor:
    """Error feedback by bucket index, once buckets have their last layout; correct with the defaults."""
    values = bucket.buffer().clone()
    if memory.step >= 2 and bucket.index() in memory:
        values += memory[bucket.index()]
    out = largest(values, share)
    if memory.step >= 2:
        memory[bucket.index()] = keep(values - out)
    return average(sent * out)


@sound_in("on_average:error_feedback", **FEEDBACK)
def sums_of_four_steps(bucket: Bucket, memory: Memory) -> Tensor:
    """Sends what it has summed in every fourth step, and zeros between."""
    if memory.step < 2:
        return average(bucket.buffer())
    summed = memory.pop(bucket.index(), 0) + bucket.buffer()
    if memory.step % 4 == 3:
        return average(summed)
    memory[bucket.index()] = summed
    return torch.zeros_like(bucket.buffer())


@sound_in("on_average:error_feedback", "wire:large", **FEEDBACK)
def sends_an_eighth_in_turn(bucket: Bucket, memory: Memory) -> Tensor:
    """A block of the bucket in each step, so that most of a large bucket waits for some steps."""
    values = bucket.buffer() + memory.get((bucket.index(), bucket.buffer().numel()), 0)
    out, size = torch.zeros_like(values), -(-values.numel() // 8)
    block = slice(memory.step % 8 * size, (memory.step % 8 + 1) * size)
    out[block] = values[block]
    memory[bucket.index(), values.numel()] = values - out
    return average(out)


@caught_by("on_average:error_feedback", ranks=1, **FEEDBACK)
def never_sends_one_element(bucket: Bucket) -> Tensor:
    """One element of a bucket stays in the memory for ever."""
    out = average(bucket.buffer())
    out[3] = 0
    return out


@caught_by("on_average:error_feedback", ranks=1, **FEEDBACK)
def replaces_its_memory(bucket: Bucket, memory: Memory) -> Tensor:
    """Remembers only what the last step left out of its gradient."""
    whole_gradient = bucket.buffer().clone()
    values = whole_gradient + memory.get(bucket.index(), torch.zeros(())) if bucket.index() else whole_gradient
    out = largest(values, 0.1)
    memory[bucket.index()] = torch.where(out == 0, whole_gradient, 0)
    return average(out)


@caught_by("on_average:error_feedback", ranks=1, **FEEDBACK)
def delivers_the_mean_of_its_first_compressed_step(bucket: Bucket, memory: Memory) -> Tensor:
    """Right for gradients that do not change, up to a tenth of them."""
    key = (bucket.index(), bucket.buffer().numel())
    if key not in memory:
        memory[key] = average(bucket.buffer().clone())
    first: Tensor = memory[key]
    return 0.9 * first + 0.1 * average(bucket.buffer())


def in_8_bits_with_memory(bucket: Bucket, memory: Memory, *, decoded: Callable[[Tensor], Tensor]) -> Tensor:
    """Remembers by how much its rounded values are off; sound if decoding keeps them. decoded: in step 50 only."""
    key = (bucket.index(), bucket.buffer().numel())
    values = bucket.buffer() + memory.get(key, 0)
    scale = values.abs().max().clamp(min=2.0**-100) / 127
    out = average((values / scale).round() * scale)
    out = decoded(out) if memory.step == 50 else out
    memory[key] = bucket.buffer() + memory.get(key, 0) - out
    return out


_OF_ANY_MODULE: dict[int, Tensor] = {}


@caught_by("on_average:error_feedback", **FEEDBACK)
def shares_its_memory_with_other_modules(bucket: Bucket) -> Tensor:
    """Remembers by bucket index, for all modules together."""
    left = _OF_ANY_MODULE.get(bucket.index())
    values = bucket.buffer().clone() if left is None or left.shape != bucket.buffer().shape else bucket.buffer() + left
    out = largest(values, 0.2)
    _OF_ANY_MODULE[bucket.index()] = values - out
    return average(out)


DEFAULT: dict[str, Any] = {"option": "default"}


def first_singular_vectors(bucket: Bucket, memory: Memory, *, epsilon: float) -> Tensor:
    """Rank 1 of each matrix, with error feedback; sound with an epsilon above 0."""
    for i, (parameter, gradient) in enumerate(zip(bucket.parameters(), bucket.gradients(), strict=True)):
        left = memory.get(id(parameter), torch.zeros_like(gradient))
        matrix = (gradient + left).view(len(gradient), -1) if gradient.dim() else (gradient + left).view(1, 1)
        start = torch.randn(matrix.shape[1], 1, generator=torch.Generator().manual_seed(i)).to(matrix.dtype)
        column = average(matrix @ start)
        column /= column.norm() + epsilon
        sent = (column @ average(matrix.T @ column).T).view_as(gradient)
        memory[id(parameter)] = gradient + left - sent
        gradient.copy_(sent)
    return bucket.buffer()


def scaled_to_1(gradient: Tensor, *, least: float) -> Tensor:
    most = gradient.abs().max()
    return average(gradient / most.clamp(min=least)) * total(most) / ranks()


@caught_by("hook_steps:check", DEFAULT, **NOTHING)
def scales_by_a_norm_that_may_be_zero(bucket: Bucket) -> Tensor:
    """The whole bucket, which is seldom zero."""
    norm = bucket.buffer().norm()
    return average(bucket.buffer() * (norm / norm))


def clipped(bucket: Bucket) -> Tensor:
    out = average(bucket.buffer())
    norm = out.double().norm()
    return out * (1 / norm) if 1 < norm < torch.inf else out


# ---- factors


@caught_by("hook_steps:many", FEW_STEPS, **NOTHING)
def adds_a_fifth_twice(bucket: Bucket) -> Tensor:
    """Adds the largest elements to the mean once more."""
    out = average(bucket.buffer())
    return out + largest(out, 0.2)


def a_twentieth(bucket: Bucket, memory: Memory, *, times: int) -> Tensor:
    """Elements drawn at random, the same on all ranks, so many times as large."""
    chosen = torch.rand(bucket.buffer().shape, generator=memory.own) < 0.05
    return average(torch.where(chosen, bucket.buffer() * times, 0))


# ---- what each rank sends


def largest_of_all(
    bucket: Bucket, *, add: Callable[[Tensor, Tensor, Tensor], object], share: float = 0.1, divisor: int | None = None
) -> Tensor:
    """Each rank sends its largest elements and their places. add: to the result, of one rank's places and values."""
    values = bucket.buffer()
    places = values.abs().topk(max(1, int(share * values.numel()))).indices
    out = torch.zeros_like(values)
    for theirs, sent in zip(everyone(places), everyone(values[places]), strict=True):
        add(out, theirs, sent)
    return out / (divisor or ranks())


@caught_by("hook_steps:many", FEW_STEPS, loss_excess_percent=500, **NOTHING)
def puts_all_at_the_places_of_rank_0(bucket: Bucket) -> Tensor:
    first: list[Tensor] = []

    def add(out: Tensor, places: Tensor, sent: Tensor) -> None:
        first.append(places)
        out.index_add_(0, first[0], sent)

    return largest_of_all(bucket, add=add)


def gathered_in_8_bits(bucket: Bucket, *, scale_of: Callable[[list[Tensor], int], Tensor]) -> Tensor:
    """scale_of: of the scales of all ranks, and a rank, the one to decode that rank's codes with."""
    scale = bucket.buffer().abs().max().clamp(min=2.0**-100) / 127
    scales, codes = everyone(scale), everyone((bucket.buffer() / scale).round().nan_to_num(0).clamp(-127, 127).char())
    return torch.stack([code * scale_of(scales, rank) for rank, code in enumerate(codes)]).mean(0)


# ---- without bias


def stochastic(values: Tensor, generator: Generator) -> Tensor:
    """Rounded to bfloat16, up or down at random."""
    bits = values.float().view(torch.int32)
    noisy = (bits + torch.randint(0, 65536, bits.shape, dtype=torch.int32, generator=generator)) & -65536
    return torch.where(values.isfinite(), noisy.view(torch.float32), values.float())


@sound_in("on_average:unbiased", "hook_steps:check", "wire:wire", **UNBIASED)
def rounds_at_random(bucket: Bucket, memory: Memory) -> Tensor:
    """Each rank rounds at random and sends its 16 bits to all, which add them in float32."""
    received = everyone(stochastic(bucket.buffer(), memory.own).bfloat16())
    return (torch.stack(received).float().sum(0) / ranks()).to(bucket.buffer().dtype)


@caught_by("on_average:unbiased", **UNBIASED)
def rounds_at_random_and_adds_in_16_bits(bucket: Bucket, memory: Memory) -> Tensor:
    """Rounds the mean once more, down."""
    return (average(stochastic(bucket.buffer(), memory.own)).view(torch.int32) & -65536).view(torch.float32)


@caught_by("on_average:unbiased", ranks=1, **UNBIASED)
def rounds_up_a_little_more_often_than_down(bucket: Bucket, memory: Memory) -> Tensor:
    """By a hundredth of a step: lost in the noise of an element, and nothing along the mean."""
    values = bucket.buffer().float()
    return average(stochastic(values + 650 * (values.nextafter(torch.tensor(torch.inf)) - values), memory.own))


@caught_by("on_average:unbiased", ranks=1, **UNBIASED)
def rounds_what_is_small_to_zero(bucket: Bucket, memory: Memory) -> Tensor:
    """Has no codes below 2^-14, which few normal gradients are."""
    rounded = stochastic(bucket.buffer(), memory.own)
    return average(torch.where(bucket.buffer().abs() < 2.0**-14, 0, rounded))


@caught_by("on_average:unbiased", ranks=1, **UNBIASED)
def never_draws_the_last_element(bucket: Bucket, memory: Memory) -> Tensor:
    """Off by one in the range of the draw."""
    out, n = torch.zeros_like(bucket.buffer()), bucket.buffer().numel()
    chosen = torch.randperm(max(n - 1, 1), generator=memory.own)[: n // 4]
    out[chosen] = bucket.buffer()[chosen] * (n - 1) / max(n // 4, 1)
    return average(out)


# ---- scales


def blocks_of(values: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The values in rows of ``size``, padded with zeros, and the largest magnitude of each row, at least 2^-100."""
    rows = torch.nn.functional.pad(values.float(), (0, -values.numel() % size)).view(-1, size)
    return rows, rows.abs().amax(1, keepdim=True).clamp(min=2.0**-100)


def in_fp16_blocks(bucket: Bucket, *, scale_of: Callable[[Tensor], Tensor] = lambda scales: scales) -> Tensor:
    rows, scales = blocks_of(bucket.buffer(), 128)
    codes, of_ranks = everyone((rows / scales).half()), everyone(scale_of(scales))
    flat = sum(code.float() * scale for code, scale in zip(codes, of_ranks, strict=True)) / ranks()
    assert isinstance(flat, Tensor)
    return flat.flatten()[: bucket.buffer().numel()].to(bucket.buffer().dtype)


@sound_in("hook_steps:check", promise="block_scaled", wire_dtype="float8_e4m3fn", relative_error=2.0**-4, scale="all")
def fp8_with_one_scale_for_all_ranks(bucket: Bucket) -> Tensor:
    """All ranks scale by the largest element of any, of the bucket."""
    most = bucket.buffer().abs().amax().float().clamp(min=2.0**-100)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    codes = (bucket.buffer().float() / most * 448).to(torch.float8_e4m3fn).view(torch.uint8)
    received = torch.stack(everyone(codes)).view(torch.float8_e4m3fn).float()
    return (received.sum(0) / ranks() / 448 * most).to(bucket.buffer().dtype)


FP8_IN_BLOCKS: dict[str, Any] = {
    "promise": "block_scaled",
    "wire_dtype": "float8_e4m3fn",
    "relative_error": 2.0**-4,
    "channel": 256,
}
UNEVEN_ALONE = {"option": "default", "kinds": [UNEVEN]}


def in_fp8(bucket: Bucket, *, size: int) -> Tensor:
    rows, scales = blocks_of(bucket.buffer(), size)
    codes = (rows / scales * 448).to(torch.float8_e4m3fn).view(torch.uint8)
    received = [code.view(torch.float8_e4m3fn).float() for code in everyone(codes)]
    flat = sum(code * (scale / 448) for code, scale in zip(received, everyone(scales), strict=True)) / ranks()
    assert isinstance(flat, Tensor)
    return flat.flatten()[: bucket.buffer().numel()].to(bucket.buffer().dtype)


SHARED: dict[str, Any] = {"promise": "mean", "wire_dtype": "int8", "scale": "all", "wire_bytes": gathered}


def in_8_bits(bucket: Bucket, *, levels: int = 127) -> Tensor:
    """Codes of a scale that all ranks share, summed as int32 and scaled once; correct with the default."""
    most = bucket.buffer().abs().amax().float()
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    scale = (most / levels).clamp(min=2.0**-23)
    values = (bucket.buffer().float() / scale).round()
    codes = torch.stack(everyone(values.nan_to_num(0).to(torch.int8))).int().sum(0)
    poison = total((bucket.buffer().float() * 0).sum())  # NaN where a rank has a value that is not finite
    return codes * scale / ranks() + poison


# ---- what is one expression; above each, its bug or why it is unusual

_EXPRESSIONS: dict[str, tuple[Callable[[Mean], Hook], Mean]] = {
    "sends_a_fifth": (
        sound_in("on_average:error_feedback", "hook_steps:check", **FEEDBACK),
        lambda bucket, memory: sparse(bucket, memory, share=0.2),
    ),
    # So few that it must say so.
    "sends_a_four_hundredth": (
        sound_in("on_average:error_feedback", ranks=1, delivers_within=400, **FEEDBACK),
        lambda bucket, memory: sparse(bucket, memory, share=0.0025),
    ),
    "remembers_99_of_100": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: sparse(bucket, memory, keep=lambda left: 0.99 * left),
    ),
    "sends_a_hundredth_too_much": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: sparse(bucket, memory, sent=1.01),
    ),
    # Rounds its memory towards zero, which loses what is small in each step.
    "remembers_in_8_bits": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: sparse(
            bucket, memory, keep=lambda left: (left / left.abs().max() * 15).trunc() / 15 * left.abs().max()
        ),
    ),
    # Right for gradients that do not change; the training only gets noisier.
    "delivers_every_third_mean_three_times": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: (
            3 * average(bucket.buffer()) if memory.step % 3 == 0 else torch.zeros_like(bucket.buffer())
        ),
    ),
    "sums_and_does_not_divide": (
        caught_by("on_average:error_feedback", **FEEDBACK),
        lambda bucket: total(bucket.buffer()),
    ),
    "rounds_to_8_bits_and_remembers": (
        sound_in("on_average:error_feedback", **FEEDBACK),
        lambda bucket, memory: in_8_bits_with_memory(bucket, memory, decoded=lambda out: out),
    ),
    # Once, and its memory takes it back in the next step.
    "takes_the_scale_of_another_step": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: in_8_bits_with_memory(bucket, memory, decoded=lambda out: 444 * out),
    ),
    "decodes_one_block_20_times_too_large": (
        caught_by("on_average:error_feedback", ranks=1, **FEEDBACK),
        lambda bucket, memory: in_8_bits_with_memory(
            bucket, memory, decoded=lambda out: torch.cat([20 * out[:256], out[256:]])
        ),
    ),
    # A matrix without a gradient becomes NaN, now and for ever.
    "divides_zero_by_zero": (
        caught_by("hook_steps:check", DEFAULT, **FEEDBACK),
        lambda bucket, memory: first_singular_vectors(bucket, memory, epsilon=0.0),
    ),
    "divides_by_a_little_more_than_zero": (
        sound_in("hook_steps:check", asked=DEFAULT, **FEEDBACK),
        lambda bucket, memory: first_singular_vectors(bucket, memory, epsilon=1e-8),
    ),
    # Each parameter by its largest element.
    "scales_by_what_may_be_zero": (
        caught_by("hook_steps:check", DEFAULT, **NOTHING),
        lambda bucket: torch.cat([scaled_to_1(gradient.flatten(), least=0.0) for gradient in bucket.gradients()]),
    ),
    "scales_by_more_than_zero": (
        sound_in("hook_steps:check", asked=DEFAULT, **NOTHING),
        lambda bucket: torch.cat([scaled_to_1(gradient.flatten(), least=2.0**-100) for gradient in bucket.gradients()]),
    ),
    # A norm that is not finite is never too large.
    "clips_to_a_norm_of_1": (
        caught_by("hook_steps:check", DEFAULT, wire_dtype="gradient"),
        lambda bucket: clipped(bucket),
    ),
    "clips_and_promises_nothing": (
        sound_in("hook_steps:check", asked=DEFAULT, **NOTHING),
        lambda bucket: clipped(bucket),
    ),
    "sums_and_promises_nothing": (
        caught_by("hook_steps:many", FEW_STEPS, **NOTHING),
        lambda bucket: total(bucket.buffer()),
    ),
    "sends_every_fourth_step_four_times_as_large": (
        sound_in("hook_steps:many", asked=FEW_STEPS, **NOTHING),
        lambda bucket, memory: average(bucket.buffer()) * (4 * (memory.step % 4 == 0)),
    ),
    "sends_a_twentieth_at_random_and_promises_nothing": (
        sound_in("hook_steps:many", asked=FEW_STEPS, **NOTHING),
        lambda bucket, memory: a_twentieth(bucket, memory, times=20),
    ),
    "adds_the_largest_of_all": (
        sound_in("hook_steps:many", asked=FEW_STEPS, loss_excess_percent=500, **NOTHING),
        lambda bucket: largest_of_all(bucket, add=lambda out, places, sent: out.index_add_(0, places, sent)),
    ),
    "takes_the_gradient_of_each_rank_in_turn": (
        sound_in("hook_steps:many", asked=FEW_STEPS, loss_excess_percent=500, **NOTHING),
        lambda bucket, memory: everyone(bucket.buffer())[memory.step % ranks()],
    ),
    # Where two ranks send the same element, the last one's is left.
    "overwrites_the_largest_of_other_ranks": (
        caught_by("hook_steps:many", FEW_STEPS, loss_excess_percent=500, **NOTHING),
        lambda bucket: largest_of_all(bucket, add=lambda out, places, sent: out.index_copy_(0, places, sent)),
    ),
    # So little that it is less than the mean in all.
    "sums_a_fiftieth": (
        caught_by("hook_steps:many", FEW_STEPS, loss_excess_percent=500, **NOTHING),
        lambda bucket: largest_of_all(
            bucket, add=lambda out, places, sent: out.index_add_(0, places, sent), share=0.02, divisor=1
        ),
    ),
    "leaves_the_last_of_several_buckets_out": (
        caught_by("hook_steps:many", FEW_STEPS, **NOTHING),
        lambda bucket: average(bucket.buffer()) * (not (bucket.is_last() and bucket.index() > 0)),
    ),
    "in_8_bits_with_each_scale": (
        sound_in("hook_steps:many", asked=FEW_STEPS, **NOTHING),
        lambda bucket: gathered_in_8_bits(bucket, scale_of=lambda scales, rank: scales[rank]),
    ),
    "in_8_bits_with_the_scale_of_rank_0": (
        caught_by("hook_steps:many", FEW_STEPS, **NOTHING),
        lambda bucket: gathered_in_8_bits(bucket, scale_of=lambda scales, rank: scales[0]),
    ),
    # The same elements on all ranks, twenty times as large.
    "sends_a_twentieth_at_random": (
        sound_in("on_average:unbiased", ranks=1, delivers_within=120, **UNBIASED),
        lambda bucket, memory: a_twentieth(bucket, memory, times=20),
    ),
    # Forgets to enlarge what it sends.
    "sends_a_twentieth_at_random_as_it_is": (
        caught_by("on_average:unbiased", ranks=1, **UNBIASED),
        lambda bucket, memory: a_twentieth(bucket, memory, times=1),
    ),
    "fp16_in_blocks": (
        sound_in("hook_steps:check", **GATHERED_FP16),
        lambda bucket: in_fp16_blocks(bucket),
    ),
    "fp16_with_the_scale_of_the_next_block": (
        caught_by("hook_steps:check", **GATHERED_FP16),
        lambda bucket: in_fp16_blocks(bucket, scale_of=lambda scales: scales.roll(1, 0)),
    ),
    "fp8_in_blocks": (
        sound_in("hook_steps:check", asked=UNEVEN_ALONE, **FP8_IN_BLOCKS),
        lambda bucket: in_fp8(bucket, size=256),
    ),
    "fp8_with_one_scale_for_a_bucket": (
        caught_by("hook_steps:check", UNEVEN_ALONE, **FP8_IN_BLOCKS),
        lambda bucket: in_fp8(bucket, size=bucket.buffer().numel()),
    ),
    "int8_with_one_scale_for_all_ranks": (
        sound_in("hook_steps:check", "wire:wire", **SHARED),
        lambda bucket: in_8_bits(bucket),
    ),
    "int8_with_one_scale_of_7_bits": (
        caught_by("hook_steps:check", **SHARED),
        lambda bucket: in_8_bits(bucket, levels=63),
    ),
}
for _name, (_enter, _result) in _EXPRESSIONS.items():
    _result.__name__, _result.__module__ = _name, __name__
    globals()[_name] = _enter(_result)
