"""Does every fast variant compute the same gradients?   pytest perf -k gradients"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.judge.equivalence import Equivalence
from fixtures.matrix.averages import AVERAGES, KINDS, SHAPES
from fixtures.matrix.ddp_options import DDP_OPTIONS

EVERY_KIND = ("default", "bucket_1kb")
SHAPE = st.lists(st.integers(1, 40), min_size=1, max_size=3)


def skip_unless_it_runs(world: str, average: str, option: str = "default") -> None:
    """Skip with the reason when this torch or its DDP cannot do it."""
    if world.endswith("cpu") and (reason := AVERAGES[average].why_not_on_gloo()):
        pytest.skip(reason)
    if reason := DDP_OPTIONS[option].why_not():
        pytest.skip(f"{option}: {reason}")


@pytest.mark.parametrize("option", DDP_OPTIONS)
@pytest.mark.parametrize("average", AVERAGES)
def test_gradients(equivalence: Equivalence, gradient_world: str, average: str, option: str) -> None:
    skip_unless_it_runs(gradient_world, average, option)
    kinds = AVERAGES[average].kinds
    # What an option changes is where gradients lie and how they are copied: of a kind at a time, some show that.
    equivalence(gradient_world, average, option, SHAPES, kinds if option in EVERY_KIND else kinds[:3], 0)


@pytest.mark.parametrize("average", AVERAGES)
def test_gradients_of_any_shape(equivalence: Equivalence, gradient_world: str, average: str) -> None:
    skip_unless_it_runs(gradient_world, average)

    @settings(max_examples=settings().max_examples // 4)
    @given(
        shapes=st.lists(SHAPE, min_size=1, max_size=5),
        kind=st.sampled_from(KINDS),
        seed=st.integers(0, 2**31),
        option=st.sampled_from([name for name, option in DDP_OPTIONS.items() if not option.why_not()]),
    )
    def holds(shapes: list[list[int]], kind: str, seed: int, option: str) -> None:
        equivalence(gradient_world, average, option, shapes, [kind], seed)

    holds()
