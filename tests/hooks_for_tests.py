"""User hooks for ``--hook tests.hooks_for_tests:NAME``, some of which break a rule."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from fixtures.matrix.hook import Hook


def done(tensor: Tensor) -> Future[Tensor]:
    future: Future[Tensor] = Future()
    future.set_result(tensor)
    return future


def mean(tensor: Tensor) -> Tensor:
    distributed.all_reduce(tensor)
    return tensor / distributed.get_world_size()


def raises(state: None, bucket: GradBucket) -> Future[Tensor]:
    raise ArithmeticError("no such luck")


def hangs_where_it_has_nothing_to_send(state: None, bucket: GradBucket) -> Future[Tensor]:
    """The ranks with a gradient wait for the one without."""
    return averages(state, bucket) if bucket.buffer().any() else done(bucket.buffer())


def raises_later(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(bucket.buffer()).then(lambda future: future.value()[10**9])


def wrong_shape(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer())[None, :])


def short_view(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer())[:-1])


def other_dtype(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()).double())


def names_it_otherwise(state: None, its_bucket: GradBucket) -> Future[Tensor]:
    return done(mean(its_bucket.buffer()))


def annotates_it_otherwise(state: None, bucket: Tensor) -> Future[Tensor]:
    raise AssertionError("DDP does not take it")


def float32_for_16_bits(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()).float())


def differs_by_rank(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()) * (1 + distributed.get_rank()))


def averages(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()))


def sums(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()) * distributed.get_world_size())


def divides_twice(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()) / distributed.get_world_size())


def _with(share: float, every: int) -> Callable[[None, GradBucket], Future[Tensor]]:
    """The mean, with each of so many elements times this."""

    def hook(state: None, bucket: GradBucket) -> Future[Tensor]:
        result = mean(bucket.buffer())
        result[every - 1 :: every] *= share
        return done(result)

    return hook


drops_every_second = _with(0, 2)  # of complex gradients the imaginary part


@dataclass(kw_only=True)
class Memory:
    """The memory of a sparse hook. With the defaults, the hook is correct and sends a tenth of the elements.

    share: of the elements, sent in each step. forgets_every: steps after which the memory is cleared.
    buckets: how many of them have a memory.
    step: counter. left: parameter -> what was left out; not by bucket, since DDP rebuilds its buckets.
    """

    share: float = 0.1
    forgets_every: int = 10**9
    buckets: int = 100
    step: int = 0
    left: dict[int, Tensor] = field(default_factory=dict)


def largest(memory: Memory, bucket: GradBucket) -> Future[Tensor]:
    """The mean of the largest share of each rank's gradients plus memory."""
    memory.step += bucket.is_last()
    if memory.step % memory.forgets_every == 0:
        memory.left.clear()
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        gradient += memory.left.get(id(parameter), torch.zeros_like(gradient))
        least = gradient.abs().flatten().topk(max(1, int(memory.share * gradient.numel()))).values[-1]
        sent = torch.where(gradient.abs() >= least, gradient, 0)
        if bucket.index() < memory.buckets:
            memory.left[id(parameter)] = gradient - sent
        gradient.copy_(sent)
    return done(mean(bucket.buffer()))


def _hook(build: Callable[[object], tuple[object, object]], name: str, **promised: object) -> Hook:
    return Hook(name=name, build=build, **promised)  # type: ignore[arg-type]  # fields of Hook


lossless = _hook(lambda ddp: (None, averages), "own_mean", promise="mean", wire_dtype="gradient")
not_divided = _hook(lambda ddp: (None, sums), "own_sum", promise="mean", wire_dtype="gradient")
divided_twice = _hook(lambda ddp: (None, divides_twice), "own_half", promise="mean", wire_dtype="gradient")
one_in_ten_thousand_off = _hook(
    lambda ddp: (None, _with(1.01, 10**4)), "own_nearly", promise="mean", wire_dtype="gradient"
)
remembers = _hook(lambda ddp: (Memory(), largest), "own_remembers", error_feedback=True)
remembers_long = _hook(lambda ddp: (Memory(share=0.01), largest), "own_remembers_long", error_feedback=True)
now_and_then_forgets = _hook(
    lambda ddp: (Memory(forgets_every=100), largest), "own_now_and_then_forgets", error_feedback=True
)
remembers_a_bucket = _hook(lambda ddp: (Memory(buckets=1), largest), "own_remembers_a_bucket", error_feedback=True)
claims_bf16 = _hook(lambda ddp: (None, averages), "own_claims_bf16", promise="mean", wire_dtype="bfloat16")
claims_mean = _hook(lambda ddp: (None, short_view), "own_short", promise="mean", wire_dtype="gradient")
no_future = _hook(lambda ddp: (None, lambda state, bucket: mean(bucket.buffer())), "own_no_future")
partial_function = _hook(lambda ddp: (None, partial(averages)), "own_partial")
no_pair = _hook(lambda ddp: averages, "own_no_pair")  # type: ignore[arg-type, return-value]


def builds_nothing(ddp: object) -> tuple[object, object]:
    raise ArithmeticError("no memory")


cannot_build = _hook(builds_nothing, "own_cannot_build")


def on_a_side_stream(state: None, bucket: GradBucket) -> Future[Tensor]:
    with torch.cuda.stream(torch.cuda.Stream()):
        return averages(state, bucket)


needs_gpu_to_build = _hook(lambda ddp: (torch.cuda.Stream(), averages), "own_needs_gpu_to_build")
low_rank = _hook(lambda ddp: (None, averages), "own_low_rank", promise="low_rank")
named_like_another = _hook(lambda ddp: (None, averages), "bf16")


def delivers_zeros(state: None, bucket: GradBucket) -> Future[Tensor]:
    """Fast, and all ranks get the same."""
    return done(torch.zeros_like(bucket.buffer()))


# Fast, because it sends nothing.
fast_and_wrong = _hook(
    lambda ddp: (None, lambda state, bucket: done(bucket.buffer())), "own_fast", promise="mean", wire_dtype="gradient"
)
learns_nothing = _hook(lambda ddp: (None, delivers_zeros), "own_zeros")
states_its_loss = _hook(lambda ddp: (None, delivers_zeros), "own_states_its_loss", loss_excess_percent=30)


def _only(takes: Callable[[torch.dtype], bool]) -> Callable[[None, GradBucket], Future[Tensor]]:
    def hook(state: None, bucket: GradBucket) -> Future[Tensor]:
        if not takes(bucket.buffer().dtype):
            raise ArithmeticError("no such dtype")
        return averages(state, bucket)

    return hook


raises_for_float16 = _only(lambda dtype: dtype != torch.float16)
# The others wait for it.
raises_on_the_last_rank = _only(lambda dtype: distributed.get_rank() < distributed.get_world_size() - 1)


_OF_FLOAT32: dict[str, object] = {"promise": "mean", "wire_dtype": "gradient"}
for_float32 = _hook(
    lambda ddp: (None, _only(lambda dtype: dtype == torch.float32)),
    "own_float32",
    why_not=lambda gradients: "it takes float32 only" if any(size != 4 for _, size in gradients) else None,
    **_OF_FLOAT32,
)
reasons_with_a_number = _hook(lambda ddp: (None, averages), "own_reason", why_not=lambda gradients: 3, **_OF_FLOAT32)
bytes_of_nothing = _hook(
    lambda ddp: (None, averages), "own_bytes", wire_bytes=lambda gradients, ranks: gradients[10**9], **_OF_FLOAT32
)
