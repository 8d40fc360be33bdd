"""The suite's own hooks with planted bugs.

To add one, write it as what it claims to be and enter it in CAUGHT_BY with the scenario and option that must catch it.
A mutant is the state of a hook, because the hook does its arithmetic there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__

from fixtures.extras.hooks.all_to_all import QuantisedState, quantised_all_to_all_hook
from fixtures.matrix.hook import Hook
from tests.extras.hooks.sound_hooks import (
    BF16,
    INT8,
    INT8_FP32_VECTORS,
    Bf16State,
    VectorsState,
    bf16_all_to_all_hook,
    vectors_hook,
)

# Name of a hook -> the scenario and the option that catch it.
CAUGHT_BY: dict[str, tuple[str, str]] = {}


# Any: fields of Hook.
def caught_by(scenario: str, option: str = "default", **claim: Any) -> Callable[[type[QuantisedState]], Hook]:
    def enter(state: type[QuantisedState]) -> Hook:
        sound = INT8_FP32_VECTORS if claim.get("leaves_vectors") else INT8
        start = claim.get("first_step", sound.first_step)
        function = vectors_hook if sound.leaves_vectors else quantised_all_to_all_hook
        name = f"{__name__}:{state.__name__}"
        CAUGHT_BY[name] = (scenario, option)
        return replace(sound, name=name, build=lambda ddp: (state(ddp.process_group, start=start), function), **claim)

    return enter


@caught_by("no_sync")
class Int8ForgetsWhatItLeavesOut(QuantisedState):
    """Has no memory."""

    def encode(self, values: Tensor, message: Tensor) -> None:
        super().encode(values, message)
        values.zero_()


@caught_by("group_of_all")
class Int8ForgetsTheSecondRounding(QuantisedState):
    """Remembers only what is left out of the gradients, not of their mean."""

    def encode(self, values: Tensor, message: Tensor) -> None:
        super().encode(values, message)
        if len(values) == 1:
            values.zero_()


@caught_by("group_of_all")
class Int8RemembersAnNthOfTheSecondRounding(QuantisedState):
    """Remembers it as the one rank of all, without the number of ranks."""

    def encode(self, values: Tensor, message: Tensor) -> None:
        super().encode(values, message)
        if len(values) == 1:
            values.div_(self.process_group.size())


@caught_by("group_of_all")
class Int8ReadsTheScaleOfTheNextBlock(QuantisedState):
    """Decodes the final mean with it."""

    def decode(self, message: Tensor, into: Tensor) -> None:
        codes, scales = self._codes_and_scales(message)
        into.copy_((codes * scales.roll(1, 1)).flatten()[: into.numel()])


@caught_by("group_of_pairs")
class Int8ReceivesTheScaleOfAnotherBlock(QuantisedState):
    """Decodes what other ranks sent with it."""

    def encode(self, values: Tensor, message: Tensor) -> None:
        super().encode(values, message)
        scales = self._codes_and_scales(message)[1]
        scales.copy_(scales.roll(1, 1))


@caught_by("group_of_all")
class Int8Is6Bits(QuantisedState):
    """Uses 63 of 255 codes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: of QuantisedState
        super().__init__(*arguments, **options)
        self._largest = 31.0


@caught_by("no_sync", first_step=0)
class Int8RemembersByTheFirstLayout(QuantisedState):
    """Compresses before DDP has laid its buckets out anew, so that memories go to other parameters."""


@caught_by("group_of_all")
class Int8NeverStarts(QuantisedState):
    """Sends every gradient uncompressed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: of QuantisedState
        super().__init__(*arguments, **{**options, "start": 100})


@caught_by("no_sync", leaves_vectors=True)
class Int8CompressesVectorsToo(VectorsState):
    """Sends them in 8 bits."""

    def vectors(self, bucket: GradBucket) -> list[Tensor]:
        return []


@caught_by("no_sync", leaves_vectors=True)
class Int8AddsUpVectors(VectorsState):
    """Does not divide them by the number of ranks."""

    def take_out(self, vectors: Sequence[Tensor], into: Tensor) -> None:
        super().take_out(vectors, into)
        into.mul_(self.process_group.size())


@caught_by("no_sync", leaves_vectors=True)
class Int8RemembersVectors(VectorsState):
    """Sends them in 8 bits as well, so that its memory has what was not left out."""

    def take_out(self, vectors: Sequence[Tensor], into: Tensor) -> None:
        kept = [vector.clone() for vector in vectors]
        super().take_out(vectors, into)
        for vector, value in zip(vectors, kept, strict=True):
            vector.copy_(value)


@caught_by("no_sync", leaves_vectors=True)
class Int8LeavesVectorsInBf16(VectorsState):
    """Rounds them to bfloat16."""

    def take_out(self, vectors: Sequence[Tensor], into: Tensor) -> None:
        super().take_out(vectors, into)
        into.copy_(into.bfloat16())


class _HidesNan(QuantisedState):
    """Delivers a number where a gradient is NaN or infinite."""

    def decode(self, message: Tensor, into: Tensor) -> None:
        super().decode(message, into)
        into.nan_to_num_(0.0, 0.0, 0.0)


# Not in CAUGHT_BY: no scenario has such gradients.
HIDES_NAN = replace(
    INT8,
    name=f"{__name__}:HIDES_NAN",
    build=lambda ddp: (_HidesNan(ddp.process_group), quantised_all_to_all_hook),
)


class _SumsInBf16(Bf16State):
    def mean(self, received: Tensor) -> Tensor:
        total = received[0]
        for row in received[1:]:
            total = total + row
        return (total / len(received)).unsqueeze(0)


# Rounds each partial sum to bfloat16, as an all-reduce does.
SUMS_IN_BF16 = replace(
    BF16,
    name=f"{__name__}:SUMS_IN_BF16",
    build=lambda ddp: (_SumsInBf16(ddp.process_group), bf16_all_to_all_hook),
)
