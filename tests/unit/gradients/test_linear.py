"""The chance of the guarantee for linear hooks: no sum is rounded, and enough draws are compared."""

from math import log2

import pytest

from fixtures.gradients.cases import LINEAR_RANKS, draws, guarantee, integers
from fixtures.matrix.hooks import find_hook


@pytest.mark.parametrize(("wire", "bits"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
@pytest.mark.parametrize("ranks", LINEAR_RANKS)
def test_the_sum_of_the_largest_integers_is_exact_and_the_chance_is_small(wire: str, bits: int, ranks: int) -> None:
    assert ranks * integers(wire, ranks) == 2**bits
    assert draws(wire, ranks) * log2(2 * integers(wire, ranks) + 1) >= 20


@pytest.mark.parametrize(("hook", "bits"), [("allreduce", 57), ("fp16", 24), ("bf16", 21)])
def test_the_guarantee_has_the_worst_chance_of_all_worlds(hook: str, bits: int) -> None:
    assert guarantee(find_hook(hook)) == f"exact at 2, 4, 8, 64 ranks (chance of a wrong linear hook 2^-{bits})"
