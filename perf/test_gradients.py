"""Does every hook deliver the gradients that it promises?   pytest perf -k gradients"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.gradients.cases.checks import Check
from fixtures.gradients.cases.ddp_options import DDP_OPTIONS
from fixtures.gradients.cases.injected import KINDS, MANY_SHAPES, SHAPES, kinds_for
from fixtures.gradients.every_check import MANY_STEPS
from fixtures.gradients.fixtures import PromiseCheck, skip_repetition
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.promises import PROMISES
from fixtures.matrix.worlds import parse_world
from fixtures.session.settings import SETTINGS

# Of the parameters. Only the first for 8-bit hooks: torch's deliver float32 for a bucket of any dtype.
DTYPES = ("float32", "float64", "bfloat16", "float16")
SHAPE = st.lists(st.integers(1, 40), max_size=3)
# The options for worlds of more than two GPUs: one bucket, many buckets, and the option of the throughput tests. Larger
# worlds add only how a mean of many is rounded, which depends on the hook, not on the option.
OF_MANY = ("default", "bucket_1kb", "static_graph_bucket_view")


def skip_unless_it_runs(world: str, hook: str, option: str = "default") -> None:
    """Skip with the reason if this torch or its DDP does not support it."""
    if world.endswith("cpu") and (reason := find_hook(hook).why_not_on_gloo()):
        pytest.skip(reason)
    if reason := DDP_OPTIONS[option].why_not():
        pytest.skip(f"{option}: {reason}")


@pytest.mark.parametrize("option", DDP_OPTIONS)
def test_gradients(
    request: pytest.FixtureRequest, promise: PromiseCheck, gradient_world: str, any_hook: str, option: str
) -> None:
    skip_unless_it_runs(gradient_world, any_hook, option)
    on_gpus = len(request.config.stash[SETTINGS].gpus) > 0
    world = parse_world(gradient_world)
    beyond_pairs = world.size > 2 and (world.backend == "nccl" or on_gpus)
    if beyond_pairs and any_hook != "none" and option not in OF_MANY:
        skip_repetition(f"under {option} a hook is run on two GPUs only: more GPUs are covered by {', '.join(OF_MANY)}")
    kinds = kinds_for(eight_bits=find_hook(any_hook).eight_bits, option=option)
    asked = {"shapes": SHAPES, "kinds": kinds, "seed": 0}
    promise(gradient_world, Check.DDP_OPTIONS, hook=any_hook, option=option, **asked)


def test_gradients_of_many_steps(promise: PromiseCheck, long_world: str, long_hook: str) -> None:
    skip_unless_it_runs(long_world, long_hook)
    kind, *_ = kinds_for(eight_bits=find_hook(long_hook).eight_bits)
    promise(long_world, Check.MANY_STEPS, hook=long_hook, kind=kind, steps=MANY_STEPS, seed=0)


def test_gradients_of_a_large_bucket(promise: PromiseCheck, large_world: str, large_hook: str) -> None:
    skip_unless_it_runs(large_world, large_hook)
    promise(large_world, Check.LARGE, hook=large_hook)


def test_gradients_of_four_ranks(promise: PromiseCheck, large_world: str, large_hook: str) -> None:
    """Many small buckets, and one of 35,000 elements; that of the test above is large."""
    skip_unless_it_runs(large_world, large_hook)
    if not PROMISES[find_hook(large_hook).promise].any_gradient:
        skip_repetition("the tests of PowerSGD inject gradients of a kind that it can compress")
    kinds = kinds_for(eight_bits=find_hook(large_hook).eight_bits, option="bucket_1kb")
    asked = {"shapes": MANY_SHAPES, "kinds": kinds, "seed": 0}
    for option in ("bucket_1kb", "default"):
        promise(large_world, Check.DDP_OPTIONS, hook=large_hook, option=option, **asked)


@pytest.mark.two_worlds
def test_gradients_without_bias(promise: PromiseCheck, gradient_world: str, unbiased_hook: str) -> None:
    skip_unless_it_runs(gradient_world, unbiased_hook)
    promise(gradient_world, Check.UNBIASED, hook=unbiased_hook)


@pytest.mark.two_worlds
def test_gradients_of_any_shape(promise: PromiseCheck, gradient_world: str, any_hook: str) -> None:
    skip_unless_it_runs(gradient_world, any_hook)

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
        promise(gradient_world, Check.DDP_OPTIONS, hook=any_hook, kinds=[kind], **drawn)

    holds()


@pytest.mark.two_worlds
def test_gradients_left_out_come_later(
    promise: PromiseCheck, gradient_world: str, feedback_hook: str, option: str
) -> None:
    skip_unless_it_runs(gradient_world, feedback_hook, option)
    promise(gradient_world, Check.ERROR_FEEDBACK, hook=feedback_hook, option=option)
