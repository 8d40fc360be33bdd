"""PowerSGD hooks with planted bugs: torch's hook, with its state changed before a bucket or the bucket after it.

To add one, write a function of the state and the bucket under ``@before`` or ``@after``, with the check that must catch
it. Its docstring names the bug.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import HOOKS

# Any: torch's PowerSGDState has no types.
Change = Callable[[Any, GradBucket], None]

SOUND = HOOKS["powersgd_rank1"]
START, RANK = "start_powerSGD_iter", "matrix_approximation_rank"
# Broken hooks, each with the case of test_hooks.py that must catch it.
CAUGHT_BY: list[tuple[Hook, str]] = []


def _nothing(state: Any, bucket: GradBucket) -> None:
    """No change."""


def _mutant(change: Change, caught_by: str, *, before: Change = _nothing, after: Change = _nothing) -> Hook:
    def build(ddp: Any) -> tuple[Any, Any]:
        assert SOUND.build is not None
        state, powersgd = SOUND.build(ddp)

        def hook(state: Any, bucket: GradBucket) -> Future[Tensor]:
            compresses = state.iter >= state.start_powerSGD_iter
            if compresses:
                before(state, bucket)
            powersgd(state, bucket).wait()
            if compresses:
                after(state, bucket)
            done: Future[Tensor] = Future()
            done.set_result(bucket.buffer())
            return done

        return state, hook

    broken = replace(SOUND, name=f"tests.mutants.powersgd:{change.__name__}", build=build)
    CAUGHT_BY.append((broken, caught_by))
    return broken


def before(caught_by: str) -> Callable[[Change], Hook]:
    return lambda change: _mutant(change, caught_by, before=change)


def after(caught_by: str) -> Callable[[Change], Hook]:
    return lambda change: _mutant(change, caught_by, after=change)


for _when, _caught_by, _name, _change in (
    # Multiplied by 1.001.
    (after, "follow", "a_thousandth_too_large", lambda state, bucket: bucket.buffer().mul_(1.001)),
    # Values are rounded to multiples of 1/1024, whatever their size.
    (after, "follow", "rounds_to_a_grid", lambda state, bucket: bucket.buffer().mul_(1024).round_().div_(1024)),
    # Zero becomes 1e-30.
    (after, "vanish", "adds_an_epsilon", lambda state, bucket: bucket.buffer().add_(1e-30)),
    # The first step that should compress is a plain mean.
    (before, "follow", "starts_a_step_late", lambda state, bucket: setattr(state, START, SOUND.first_step + 1)),
    # One less than full rank.
    (before, "full_rank", "loses_a_direction", lambda state, bucket: setattr(state, RANK, 23)),
):
    _change.__name__ = _name
    globals()[_name] = _when(_caught_by)(_change)


@after("follow")
def wrong_transpose(state: Any, bucket: GradBucket) -> None:
    """Q P^T instead of P Q^T, read as an n by m matrix."""
    for matrix in bucket.gradients():
        if matrix.ndim == 2:
            matrix.copy_(matrix.reshape(matrix.shape[1], matrix.shape[0]).t().clone())


@after("follow")
def vectors_are_divided_twice(state: Any, bucket: GradBucket) -> None:
    """Vectors, which are not compressed, are halved once more."""
    for gradient in bucket.gradients():
        if gradient.ndim == 1:
            gradient.div_(2)


@after("follow")
def forgets_some_of_what_it_left_out(state: Any, bucket: GradBucket) -> None:
    """The memory of the first elements is lost."""
    for memory in state.error_dict.values():
        memory[:50] = 0


@before("converge")
def loses_its_warm_start(state: Any, bucket: GradBucket) -> None:
    """Every step starts from the same random Q."""
    for q in state.q_memory_dict.values():
        q.copy_(torch.randn(q.shape, generator=torch.Generator().manual_seed(1)))


def _scaled(ddp: Any) -> tuple[Any, Any]:
    """In bfloat16, half a per cent too large: each element is within its bound, the slope along the mean is not."""
    sound = HOOKS["bf16_powersgd_rank1"]
    assert sound.build is not None
    state, powersgd = sound.build(ddp)

    def hook(state: Any, bucket: GradBucket) -> Future[Tensor]:
        shapes = [gradient.shape for gradient in bucket.gradients()]
        compresses = state.iter >= state.start_powerSGD_iter
        out: Tensor = powersgd(state, bucket).wait()
        for part, shape in zip(out.split([shape.numel() for shape in shapes]), shapes, strict=True):
            if compresses and len(shape) == 2:
                part *= 1.005
        done: Future[Tensor] = Future()
        done.set_result(out)
        return done

    return state, hook


half_a_per_cent_too_large = replace(
    HOOKS["bf16_powersgd_rank1"], name=f"{__name__}:half_a_per_cent_too_large", build=_scaled
)
CAUGHT_BY.append((half_a_per_cent_too_large, "follow"))
