"""Sound hooks whose promises no hook of the suite makes: codes of int8, vectors in float32, a sum in float32."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributed import GradBucket, ProcessGroup  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from fixtures.extras.hooks.all_to_all import _by_shares, _group
from fixtures.extras.hooks.hooks import by_shares, quantised
from fixtures.matrix.hook import Hook


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


# Any: DDP, and the state and the function of the hook.
def _bf16(ddp: Any) -> tuple[Any, Any]:
    return Bf16State(ddp.process_group), bf16_all_to_all_hook


INT8 = quantised(f"{__name__}:INT8", "int8")
INT8_FP32_VECTORS = quantised(f"{__name__}:INT8_FP32_VECTORS", "int8", leaves_vectors=True)
FP8_FP32_VECTORS = quantised(f"{__name__}:FP8_FP32_VECTORS", "float8_e4m3fn", leaves_vectors=True)
BF16 = Hook(
    name=f"{__name__}:BF16",
    build=_bf16,
    promise="mean",
    wire_dtype="bfloat16",
    wire_bytes=by_shares(block=1, block_bytes=2),
    arithmetic="sum_in_float32",
    nested=True,
)
