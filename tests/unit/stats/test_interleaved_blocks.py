"""Configs that take turns: what differs is found, and of equal ones none is called the fastest too often."""

import math
import random

import pytest

from fixtures.stats.interleaved_blocks import LEAST_ROUNDS, Replicates, by_speed, difference
from fixtures.stats.thresholds import COPY_PERCENT, CPU_COPY_PERCENT, TURNS_LEVEL

# Of the difference of two blocks of a round, in %: eight steps on two H200, and one on two busy cores.
GPU_PAIR_PERCENT, CPU_PAIR_PERCENT = 0.08, 10.0


def heavy_tailed(rng: random.Random) -> float:
    """Student's t with three degrees of freedom, of variance 1."""
    return rng.gauss(0, 1) / math.sqrt(sum(rng.gauss(0, 1) ** 2 for _ in range(3)))


def measured(
    rng: random.Random, configs: int, copies: int, rounds: int, *, on_gpu: bool, tails: bool, longer_percent: float = 0
) -> list[Replicates]:
    """All configs but the first take longer by so much."""
    pair, copy = (GPU_PAIR_PERCENT, COPY_PERCENT) if on_gpu else (CPU_PAIR_PERCENT, CPU_COPY_PERCENT)
    draw = heavy_tailed if tails else lambda rng: rng.gauss(0, 1)

    def rounds_of(longer: float) -> list[float]:
        own = rng.gauss(0, copy)
        return [math.exp((longer + own + draw(rng) * pair / math.sqrt(2)) / 100) for _ in range(rounds)]

    return [[rounds_of(longer_percent if number else 0) for _ in range(copies)] for number in range(configs)]


@pytest.mark.parametrize("tails", [False, True])
@pytest.mark.parametrize(("on_gpu", "copies", "rounds"), [(True, 2, 3), (True, 4, 6), (False, 1, 12), (False, 2, 20)])
@pytest.mark.parametrize("configs", [2, 10])
def test_of_equal_configs_one_is_rarely_called_the_fastest(
    configs: int, on_gpu: bool, copies: int, rounds: int, tails: bool
) -> None:
    rng, runs = random.Random(configs + copies), 600
    alone = sum(
        len(by_speed(measured(rng, configs, copies, rounds, on_gpu=on_gpu, tails=tails), on_gpu=on_gpu)[0]) == 1
        for _ in range(runs)
    )
    assert alone / runs <= 2.5 * TURNS_LEVEL


@pytest.mark.parametrize(("copies", "percent"), [(2, 0.5), (4, 0.3)])
def test_a_small_difference_on_gpus_is_decided_in_nineteen_of_twenty(copies: int, percent: float) -> None:
    """As of --quick, and of a whole run."""
    rng, runs = random.Random(2), 400
    decided = sum(
        by_speed(measured(rng, 2, copies, 3, on_gpu=True, tails=False, longer_percent=percent), on_gpu=True)[0] == [0]
        for _ in range(runs)
    )
    assert decided / runs >= 0.95


def test_a_burst_in_one_block_decides_nothing_and_hides_nothing() -> None:
    quick, slow = [[1.0] * 9, [1.001] * 9], [[1.05] * 9, [1.051] * 9]
    burst = [[1.0] * 8 + [9.0], [1.001] * 9]
    assert by_speed([slow, burst], on_gpu=True)[0] == [1]
    order, behind = by_speed([burst, quick], on_gpu=True)
    assert sorted(order) == [0, 1]
    assert abs(behind[0].percent) < 0.1


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_other_work_in_many_blocks_decides_nothing_and_hides_nothing(share: float) -> None:
    """As on a machine with four H100: bursts of seconds made blocks 1 to 30 % longer. One copy, six rounds."""
    rng, runs = random.Random(5), 400

    def disturbed(longer_percent: float) -> list[Replicates]:
        found = measured(rng, 4, 1, 6, on_gpu=True, tails=False, longer_percent=longer_percent)
        return [
            [[t * (1 + (rng.random() < share) * rng.lognormvariate(0, 1) / 30) for t in copy] for copy in copies]
            for copies in found
        ]

    named = [by_speed(disturbed(0), on_gpu=True)[0] for _ in range(runs)]
    assert sum(len(leaders) == 1 for leaders in named) / runs <= TURNS_LEVEL
    named = [by_speed(disturbed(1.0), on_gpu=True)[0] for _ in range(runs)]
    assert sum(0 in leaders for leaders in named) / runs >= 0.99
    alone = sum(leaders == [0] for leaders in named) / runs
    assert alone >= (0.4 if share < 0.5 else 0.02)


def test_what_changes_slowly_cancels() -> None:
    """The machine gets slower by half; a difference of 1 % stays."""
    drift = [1 + 0.5 * number / 19 for number in range(20)]
    found = difference([[1.01 * t for t in drift]] * 4, [drift] * 4, configs=2, on_gpu=True)
    assert found.percent == pytest.approx(1)
    assert found.is_slower


def test_all_that_are_not_slower_are_named_with_what_would_have_been_decided() -> None:
    order, behind = by_speed([[[1.2] * 6] * 4, [[1.0] * 6] * 4, [[1.0005] * 6] * 4], on_gpu=True)
    assert order == [1, 2]
    (of_last,) = behind
    assert of_last.percent == pytest.approx(0.05, rel=1e-3)
    assert 0.1 < of_last.least_percent < 0.5
    assert not of_last.is_slower


def test_too_few_rounds_are_refused() -> None:
    short = [[1.0] * (LEAST_ROUNDS - 1)]
    with pytest.raises(ValueError, match="at least 3 rounds"):
        difference(short, short, configs=2, on_gpu=True)
