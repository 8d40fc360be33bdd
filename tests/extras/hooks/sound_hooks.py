"""Sound hooks whose promises no hook of the suite makes: codes of int8, vectors in float32, a sum in float32."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket, ProcessGroup  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from fixtures.extras.hooks.all_to_all import QuantisedState, _by_shares, _group, quantised_all_to_all_hook
from fixtures.extras.hooks.hooks import by_shares, quantised
from fixtures.matrix.hook import Gradient, Hook, all_reduced, whole


class Bf16State:
    """State of ``bf16_all_to_all_hook`` for one DDP module: its process group (None: all ranks) and its messages."""

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = _group(process_group)
        self._messages: dict[int, tuple[Tensor, Tensor]] = {}

    def messages(self, index: int, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a bucket sends and receives: bfloat16, one row a rank, padded with zeros."""
        n = self.process_group.size()
        shape = (n, math.ceil(gradients.numel() / n))
        if index not in self._messages or self._messages[index][0].shape != shape:
            sent = torch.zeros(shape, dtype=torch.bfloat16, device=gradients.device)
            self._messages[index] = sent, torch.empty_like(sent)
        return self._messages[index]

    def mean(self, received: Tensor) -> Tensor:
        """Return the mean (1, elements) of the rows of a message, in float32."""
        return received.mean(0, keepdim=True, dtype=torch.float32)


def bf16_all_to_all_hook(state: Bf16State, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of the ranks' gradients: each rounded to bfloat16, added in float32, and rounded to bfloat16."""
    gradients = bucket.buffer()
    sent, received = state.messages(bucket.index(), gradients)
    sent.flatten()[: gradients.numel()].copy_(gradients)

    def reduced() -> None:
        sent[:1].copy_(state.mean(received))

    def delivered() -> Tensor:
        return gradients.copy_(received.flatten()[: gradients.numel()])

    return _by_shares(state.process_group, sent, received, reduced, delivered)


class VectorsState(QuantisedState):
    """Its hook all-reduces gradients of at most one dimension in float32.

    Zeros take their places in the 8-bit message, so they raise no scale of a block.
    """

    def vectors(self, bucket: GradBucket) -> list[Tensor]:
        """Return the gradients of a bucket that are left in float32."""
        return [gradient for gradient in bucket.gradients() if gradient.dim() < 2]

    def take_out(self, vectors: Sequence[Tensor], into: Tensor) -> None:
        """Move vectors, divided by the number of ranks, into a flat tensor, and leave zeros."""
        for vector, part in _with_parts(vectors, into):
            part.copy_(vector).div_(self.process_group.size())
            vector.zero_()


def vectors_hook(state: VectorsState, bucket: GradBucket) -> Future[Tensor]:
    """Return what ``quantised_all_to_all_hook`` returns, and the mean of vectors as they are."""
    vectors = state.vectors(bucket) if state.iter >= state.start else []
    if not vectors:
        return quantised_all_to_all_hook(state, bucket)
    flat = torch.empty(sum(map(Tensor.numel, vectors)), dtype=torch.float32, device=vectors[0].device)
    state.take_out(vectors, flat)
    left = distributed.all_reduce(flat, group=state.process_group, async_op=True)

    def delivered(future: Future[Tensor]) -> Tensor:
        left.wait()
        for vector, mean in _with_parts(vectors, flat):
            vector.copy_(mean)
        return future.value()

    return quantised_all_to_all_hook(state, bucket).then(delivered)


def _with_parts(vectors: Sequence[Tensor], flat: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each vector with the part of ``flat`` that has its place, in its shape."""
    for vector, part in zip(vectors, flat.split([vector.numel() for vector in vectors]), strict=True):
        yield vector, part.view(vector.shape)


def _with_vectors(name: str, dtype: str) -> Hook:
    quantised_ = quantised(f"{__name__}:{name}", dtype)

    def wire_bytes(gradients: Sequence[Gradient], ranks: int) -> int:
        assert quantised_.wire_bytes is not None
        left = [gradient for gradient in gradients if len(gradient[0]) < 2]
        return quantised_.wire_bytes(gradients, ranks) + all_reduced(whole(4))(left, ranks)

    return replace(
        quantised_,
        build=lambda ddp: (VectorsState(ddp.process_group, dtype=getattr(torch, dtype)), vectors_hook),
        wire_bytes=wire_bytes,
        leaves_vectors=True,
        real_only=True,
    )


INT8 = quantised(f"{__name__}:INT8", "int8")
INT8_FP32_VECTORS = _with_vectors("INT8_FP32_VECTORS", "int8")
FP8_FP32_VECTORS = _with_vectors("FP8_FP32_VECTORS", "float8_e4m3fn")
BF16 = Hook(
    name=f"{__name__}:BF16",
    build=lambda ddp: (Bf16State(ddp.process_group), bf16_all_to_all_hook),
    promise="mean",
    wire_dtype="bfloat16",
    wire_bytes=by_shares(block=1, block_bytes=2),
    arithmetic="sum_in_float32",
    nested=True,
)
