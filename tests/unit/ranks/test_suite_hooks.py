"""The arithmetic of the suite's own hooks."""

from math import inf, nan

import pytest
import torch

from fixtures.ranks.hooks.acp_sgd import ACPState
from fixtures.ranks.hooks.quantised_all_to_all import _rounded

ROWS, RANK = 50, 4


def start() -> torch.Tensor:
    return torch.randn(3, ROWS, RANK, generator=torch.Generator().manual_seed(1))


def factors(kind: str) -> torch.Tensor:
    """Three matrices of a kind."""
    drawn = torch.randn(3, ROWS, RANK, generator=torch.Generator().manual_seed(0))
    if kind == "of rank 1":
        return drawn[:, :, :1] @ drawn[:, :1, :]
    return (
        drawn * {"ordinary": 1.0, "tiny": 2.0**-120, "huge": 2.0**120, "zero": 0.0, "NaN": nan, "infinite": inf}[kind]
    )


@pytest.mark.parametrize("kind", ["ordinary", "tiny", "huge", "zero", "NaN", "infinite", "of rank 1"])
def test_a_basis_is_orthonormal_whatever_the_factors(kind: str) -> None:
    basis = ACPState.orthonormal(factors(kind), start()).double()
    assert (basis.mT @ basis - torch.eye(RANK)).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["ordinary", "tiny", "huge"])
def test_a_basis_has_the_columns_of_the_factors(kind: str) -> None:
    given = factors(kind).double() / float(factors(kind).abs().max())
    basis = ACPState.orthonormal(factors(kind), start()).double()
    assert (given - basis @ (basis.mT @ given)).norm() < 1e-5 * given.norm()


def test_what_is_traced_rounds_alike() -> None:
    """As torch.compile traces it; generating code for a CPU takes 20 s and a compiler."""
    values = torch.randn(2, 3, 256, generator=torch.Generator().manual_seed(0))
    values[1, 1], values[0, 2, 5] = 0, inf
    others = values.clone()
    codes, scales = _rounded(values, 127, torch.int8)
    compiled_codes, compiled_scales = torch.compile(_rounded, dynamic=True, backend="aot_eager")(
        others, 127, torch.int8
    )
    assert torch.equal(scales, compiled_scales)
    finite = scales.isfinite().flatten()
    assert torch.equal(codes.flatten(0, 1)[finite], compiled_codes.flatten(0, 1)[finite])
    torch.testing.assert_close(values, others, rtol=0, atol=2**-22)
    assert values.isfinite().all()
