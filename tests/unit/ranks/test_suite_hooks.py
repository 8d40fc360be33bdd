"""The arithmetic of the suite's own hooks."""

from math import inf, nan

import pytest
import torch

from fixtures.ranks.hooks.acp_sgd import ACPState

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
