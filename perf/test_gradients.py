"""Does every hook deliver the gradients that it promises?   pytest perf -k gradients"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.gradients.cases import DDP_OPTIONS, KINDS, LINEAR, MANY_SHAPES, guarantee, kinds_for
from fixtures.gradients.fixtures import PromiseCheck, beyond_pairs, injects_any_gradient, keeps_nothing, unsupported
from fixtures.matrix.hooks import find_hook

# Of the parameters. Only the first for 8-bit hooks: torch's deliver float32 for a bucket of any dtype.
DTYPES = ("float32", "float64", "bfloat16", "float16")
SHAPE = st.lists(st.integers(1, 40), max_size=3)
pytestmark = pytest.mark.unless(reason=unsupported)


@pytest.mark.unless(reason=beyond_pairs)
@pytest.mark.parametrize("option", DDP_OPTIONS)
def test_gradients(promise: PromiseCheck, gradient_world: str, any_hook: str, option: str) -> None:
    promise(gradient_world, "hook_steps:check", hook=any_hook, option=option)


@pytest.mark.unless(reason=keeps_nothing)
def test_gradients_of_many_steps(promise: PromiseCheck, smallest_world: str, any_hook: str) -> None:
    promise(smallest_world, "hook_steps:many", hook=any_hook)


def test_gradients_of_a_large_bucket(promise: PromiseCheck, large_world: str, large_hook: str) -> None:
    promise(large_world, "wire:large", hook=large_hook)


def test_gradients_of_an_embedding(promise: PromiseCheck, smallest_world: str, large_hook: str) -> None:
    promise(smallest_world, "wire:embedding", hook=large_hook)


@pytest.mark.unless(reason=injects_any_gradient)
def test_gradients_of_four_ranks(promise: PromiseCheck, large_world: str, large_hook: str) -> None:
    """Many small buckets, and one of 35,000 elements; that of the test above is large."""
    kinds = kinds_for(find_hook(large_hook), "bucket_1kb")
    for option in ("bucket_1kb", "default"):
        promise(large_world, "hook_steps:check", hook=large_hook, option=option, shapes=MANY_SHAPES, kinds=kinds)


def test_gradients_of_integers(
    promise: PromiseCheck, record_property: Callable[[str, object], None], large_hook: str
) -> None:
    """Skipped with a reason unless they are exact; no hook is wrong for that."""
    promise("1cpu", "linear:check", hook=large_hook)
    record_property(LINEAR, guarantee(find_hook(large_hook)))


@pytest.mark.two_worlds
def test_gradients_without_bias(promise: PromiseCheck, gradient_world: str, unbiased_hook: str) -> None:
    promise(gradient_world, "on_average:unbiased", hook=unbiased_hook)


@pytest.mark.two_worlds
def test_gradients_of_any_shape(promise: PromiseCheck, gradient_world: str, any_hook: str) -> None:
    @settings(max_examples=settings().max_examples // 6)
    @given(
        shapes=st.lists(SHAPE, min_size=1, max_size=5),
        kind=st.sampled_from(KINDS),
        seed=st.integers(0, 2**31),
        option=st.sampled_from([name for name, option in DDP_OPTIONS.items() if not option.why_not()]),
        dtype=st.sampled_from(DTYPES[:1] if find_hook(any_hook).eight_bits else DTYPES),
        bucket_cap_mb=st.sampled_from([None, 0.0001, 0.01, 1.0]),
    )
    def holds(kind: str, **drawn: object) -> None:
        promise(gradient_world, "hook_steps:check", hook=any_hook, kinds=[kind], **drawn)

    holds()


@pytest.mark.two_worlds
def test_gradients_left_out_come_later(
    promise: PromiseCheck, gradient_world: str, feedback_hook: str, option: str
) -> None:
    promise(gradient_world, "on_average:error_feedback", hook=feedback_hook, option=option)
