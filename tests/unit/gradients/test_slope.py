"""The slope along the mean shows a factor that the bounds of single elements let pass, and no sound rounding."""

import pytest
import torch
from torch import Tensor

from fixtures.gradients.in_rank.oracles import elementwise_bound, off_scale, worst
from fixtures.matrix.hook import Hook

ELEMENTS = 2**18
HOOK = Hook(name="divides", build=None, promise="mean", wire_dtype="gradient", arithmetic="divide")


def summed(ranks: list[Tensor], wire: torch.dtype, factor: float) -> Tensor:
    """As an all-reduce in ``wire`` that begins with rank 0."""
    total = torch.zeros_like(ranks[0], dtype=wire)
    for gradient in ranks:
        total += ((factor * gradient).to(wire) / len(ranks)).to(wire)
    return total.float()


def found(wire: torch.dtype, ranks: int, factor: float) -> list[str]:
    given = [torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(rank)) for rank in range(ranks)]
    bound = elementwise_bound(given, wire, rounds_once=True)
    return off_scale(summed(given, wire, factor), given, bound, wire=wire, hook=HOOK)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(
    ("wire", "factors"),
    [(torch.float32, [1 + 1e-5]), (torch.float16, [1 - 2e-4]), (torch.bfloat16, [1.001, 0.999])],
)
def test_roundings_have_no_slope_and_a_factor_has(wire: torch.dtype, factors: list[float], ranks: int) -> None:
    assert found(wire, ranks, 1) == []
    for factor in factors:
        (line,) = found(wire, ranks, factor)
        assert float(line.split()[1]) == pytest.approx(factor, abs=1e-4)


def test_values_that_are_rounded_up_drift() -> None:
    given = [torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(rank)) for rank in range(2)]
    bound = elementwise_bound(given, torch.bfloat16, rounds_once=True)
    rounded = summed(given, torch.bfloat16, 1)
    for direction, word in ((1, "high"), (-1, "low")):
        (line,) = off_scale(rounded + direction * 2.0**-10, given, bound, wire=torch.bfloat16, hook=HOOK)
        assert line.startswith(f"delivers values that are too {word} by 1.1e-03 of their size")


def test_the_element_that_is_shown_has_a_finite_mean_if_any_is_wrong() -> None:
    wanted, bound = torch.tensor([torch.inf, 1.0, 2.0]).double(), torch.full((3,), 0.1).double()
    both, one = (worst(torch.tensor(out), wanted, bound) for out in ([0.0, 1.0, 3.0], [0.0, 1.0, 2.0]))
    assert both is not None
    assert (both[0], one) == (2, (0, torch.inf))
