"""Another run has other seeds, the same run the same."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler

from fixtures.extras.loss.in_rank.moved_seeds import moved_seeds


def of_generator() -> float:
    return float(torch.rand(1, generator=torch.Generator().manual_seed(3)))


def of_torch() -> float:
    torch.manual_seed(3)
    return float(torch.rand(1))


def of_python() -> float:
    random.seed(3)
    return random.random()


def of_numpy() -> float:
    np.random.seed(2**32 - 1)
    return float(np.random.rand())


def of_new_numpy() -> float:
    return float(np.random.default_rng(3).random())


def of_own_random() -> float:
    return random.Random(3).random()


def of_sampler() -> float:
    sampler: DistributedSampler[int] = DistributedSampler(range(1000), num_replicas=1, rank=0)  # type: ignore[arg-type]
    return float(next(iter(sampler)))


def unseeded() -> float:
    return float(torch.rand(1)) + random.random() + float(np.random.rand())


SOURCES = (of_generator, of_torch, of_python, of_numpy, of_new_numpy, of_own_random, of_sampler, unseeded)


def drawn(source: Callable[[], float], run: int, rank: int = 0) -> float:
    with moved_seeds(run, rank):
        return source()


@pytest.mark.parametrize("source", SOURCES)
def test_another_run_draws_otherwise_and_the_same_run_alike(source: Callable[[], float]) -> None:
    assert drawn(source, 1) == drawn(source, 1) != drawn(source, 2)


@pytest.mark.parametrize("source", SOURCES[:-1])
def test_the_first_run_has_the_seeds_of_the_code_and_so_has_what_follows(source: Callable[[], float]) -> None:
    own = source()
    assert drawn(source, 0) == own
    drawn(source, 1)
    assert source() == own


def test_without_a_seed_each_rank_draws_its_own() -> None:
    assert drawn(unseeded, 1, rank=0) != drawn(unseeded, 1, rank=1)
