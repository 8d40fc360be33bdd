"""Losses that are observed, the seeds they move with, and their differences."""

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DistributedSampler

from fixtures.extras.loss.in_rank.loss_training import ObservedLoss, moved_seeds, observed
from fixtures.extras.loss.plugin import (
    LEAST_SEEDS,
    MOST_SEEDS,
    between_seeds,
    difference,
    final_loss,
    learns,
    scale_of,
)

# As written, over three seeds: the loss differs by 1 %.
WRITTEN = [1.0, 1.015, 1.005]


def judged(lossy: list[float], written: list[float], scale: float = 1.0) -> str:
    return difference(written, lossy, scale, band=between_seeds(written)).word


@pytest.mark.parametrize(
    ("lossy", "written", "word"),
    [
        ([1.001, 1.016, 1.0055], WRITTEN, "same"),
        ([1.041, 1.054, 1.046], WRITTEN, "higher"),
        ([0.96, 0.974, 0.965], WRITTEN, "lower"),
        ([1.001, 1.301, 1.006], [1.0, 1.3, 1.005], "same"),  # an unlucky seed counts on both sides
        ([1.001, 1.115, 1.006], WRITTEN, "open"),  # one that is unlucky with the config alone
    ],
)
def test_a_change_that_every_seed_shows_is_higher_or_lower(lossy: list[float], written: list[float], word: str) -> None:
    assert judged(lossy, written) == word


def test_the_final_loss_is_the_mean_of_the_last_tenth() -> None:
    assert final_loss([9.0] * 18 + [1.0, 3.0]) == 2.0


def test_a_loss_below_zero_is_a_share_of_its_decrease() -> None:
    scale, of_progress = scale_of([[1.0] * 10 + [-1.0] * 10])
    assert of_progress
    assert scale == pytest.approx(2.0)


def test_a_training_that_learns_less_than_seeds_differ_is_told() -> None:
    assert learns([[2.0] * 10 + [1.0] * 10, [2.0] * 10 + [1.1] * 10])
    assert not learns([[2.31] * 10 + [2.30] * 10, [2.31] * 10 + [2.305] * 10])


def simulated(effect: float, unlucky: float, alike: float, draw: random.Random) -> str:
    """The word after as many seeds as it takes. In units of what seeds spread as written: ``effect`` of the config,
    ``unlucky``: of one of the first seeds, on both sides. alike: share of the spread that both runs of a seed have."""
    written, lossy = list[float](), list[float]()
    bad = draw.randrange(3)
    for seed in range(MOST_SEEDS):
        shared = draw.gauss(0, alike**0.5) + unlucky * (seed == bad)
        own = (1 - alike) ** 0.5
        written.append(100 + shared + draw.gauss(0, own))
        lossy.append(100 + shared + draw.gauss(0, own) + effect)
        if seed + 1 >= LEAST_SEEDS and (word := judged(lossy, written, 100.0)) != "open":
            return word
    return "open"


CASES = {"sound": (0, 0, "same"), "harmful": (3, 0, "higher"), "unlucky seed": (0, 6, "same")}


def right_of(case: str, alike: float, times: int) -> Counter[bool]:
    effect, unlucky, right = CASES[case]
    draw = random.Random(f"{case} {alike}")
    return Counter(simulated(effect, unlucky, alike, draw) == right for _ in range(times))


@pytest.mark.parametrize(
    ("alike", "times"),
    [(0.8, 100), *(pytest.param(alike, 1000, marks=pytest.mark.nightly) for alike in (0.5, 0.8, 0.95, 0.999))],
)
@pytest.mark.parametrize("case", CASES)
def test_each_case_is_judged_right_in_19_of_20_however_alike_the_runs_of_a_seed_are(
    case: str, alike: float, times: int
) -> None:
    assert right_of(case, alike, times)[True] >= 0.95 * times


# Another run has other seeds, the same run the same


def of_sampler() -> float:
    sampler: DistributedSampler[int] = DistributedSampler(range(1000), num_replicas=1, rank=0)  # type: ignore[arg-type]
    return float(next(iter(sampler)))


def unseeded() -> float:
    return float(torch.rand(1)) + random.random() + float(np.random.rand())


SOURCES: tuple[Callable[[], float], ...] = (
    lambda: float(torch.rand(1, generator=torch.Generator().manual_seed(3))),
    lambda: (torch.manual_seed(3), float(torch.rand(1)))[1],
    lambda: (random.seed(3), random.random())[1],
    lambda: (np.random.seed(2**32 - 1), float(np.random.rand()))[1],
    lambda: float(np.random.default_rng(3).random()),
    lambda: random.Random(3).random(),
    of_sampler,
    unseeded,
)


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


# The loss of a step, from its calls of backward


def of_step(*roots: Tensor | list[Tensor]) -> list[float | None]:
    loss = ObservedLoss()
    for root in roots:
        loss.before_backward(root)
    return loss.result().losses if loss.end_step() else []


@pytest.mark.parametrize(
    ("roots", "losses"),
    [
        ([torch.tensor(1.0), torch.tensor([3.0])], [2.0]),  # the mean of its calls
        ([[torch.tensor(1.0), torch.tensor(3.0)]], [4.0]),  # the roots of one call are summed
        ([torch.ones(4, 2)], []),  # with a gradient by hand
        ([torch.tensor(torch.nan)], [None]),
    ],
)
def test_a_step_has_the_loss_of_its_calls_of_backward(
    roots: list[Tensor | list[Tensor]], losses: list[float | None]
) -> None:
    assert of_step(*roots) == losses


def test_the_factor_of_a_scaler_is_taken_out_also_where_the_scaled_loss_is_divided_again() -> None:
    loss, scale = ObservedLoss(), torch.amp.GradScaler.scale
    try:
        loss.watch_scaler()
        loss.before_backward(torch.amp.GradScaler("cpu", init_scale=1024.0).scale(torch.tensor(6.0)) / 2)
    finally:
        torch.amp.GradScaler.scale = scale  # type: ignore[method-assign]
    assert loss.end_step()
    assert loss.result().losses == [3.0]


def test_what_the_code_does_to_its_loss_afterwards_changes_nothing() -> None:
    with observed() as loss:
        model, root = nn.Linear(2, 1), torch.zeros(())
        root = model(torch.ones(2)).sum()
        before = root.item()
        root.backward()
        root.detach().mul_(5)
    assert loss.end_step()
    assert loss.result().losses == [before]
