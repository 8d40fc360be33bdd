"""Growth of counts: a count that only fluctuates does not grow; a growing count is found under any fluctuation."""

import math
import random
from collections.abc import Callable, Iterable, Sequence

import pytest

from fixtures.gradients.in_rank.hook_steps import ALLOWED, STRETCH, STRETCHES, growth

# GPU memory in kB after each 24 steps under torch's bf16 hook, on two H100s.
H100 = [93117, 88603, 93633, 89375, 93633, 91569, 93633, 92343]
STEPS = STRETCHES * STRETCH
BYTES = ALLOWED["bytes of GPU memory"]
# Part of a period -> part of the fluctuation.
SHAPES: dict[str, Callable[[float], float]] = {
    "fills and is emptied": lambda part: part,
    "falls": lambda part: 1 - part,
    "sine": lambda part: 0.5 + 0.5 * math.sin(2 * math.pi * part),
    "now and then": lambda part: float(part < 0.05),
    "rarely empty": lambda part: float(part >= 0.05),
}


def lowest(counts: Sequence[float]) -> list[int]:
    return [int(min(counts[first : first + STRETCH])) for first in range(0, STEPS, STRETCH)]


def periodic(shape: Callable[[float], float], period: int, phase: int) -> list[float]:
    return [1e9 * shape((step + phase) % period / period) for step in range(STEPS)]


@pytest.mark.parametrize("series", [H100, H100[::-1]], ids=["as read", "backwards"])
@pytest.mark.parametrize("first", range(len(H100)))
def test_memory_that_nccl_lets_go_of_later_does_not_grow(series: list[int], first: int) -> None:
    assert growth([1000 * kb for kb in series[first:] + series[:first]], BYTES) == 0


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_repeats_within_half_of_the_steps_does_not_grow(shape: Callable[[float], float]) -> None:
    for period in range(1, STEPS // 2 + 1):
        for phase in range(period):
            assert growth(lowest(periodic(shape, period, phase)), 0) == 0, (period, phase)


def test_random_counts_and_any_pattern_that_repeats_do_not_grow() -> None:
    draw = random.Random(0)
    for period in range(1, STEPS // 2 + 1):
        pattern = [draw.uniform(0, 1e9) for _ in range(period)]
        assert growth(lowest([pattern[step % period] for step in range(STEPS)]), 0) == 0, period
    for _ in range(20_000):
        assert growth([draw.randrange(10**9) for _ in range(STRETCHES)], 0) == 0


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_stays_in_its_band_does_not_grow(allowed: int) -> None:
    """Even if it rises all the time, as a buffer that is slowly filled."""
    assert growth(lowest([allowed * step / (STEPS - 1) for step in range(STEPS)]), allowed) == 0


@pytest.mark.parametrize(
    ("what", "kept", "every"),
    [
        ("bytes of GPU memory", 512, 1),
        ("bytes of memory", 4 * (256 * 256 + 1000), 1),
        ("tensors", 1, 1),
        ("threads", 1, 10),
        ("open files", 1, 10),
    ],
    ids=["a scalar on a GPU", "a bucket", "a tensor", "a thread in every tenth step", "a socket in every tenth step"],
)
def test_what_is_kept_grows(what: str, kept: int, every: int) -> None:
    leak = [kept * (step // every) for step in range(STEPS)]
    assert growth(lowest(leak), ALLOWED[what]) > 0
    for fluctuation in fluctuations(kept):
        counts = [count + more for count, more in zip(leak, fluctuation, strict=True)]
        assert growth(lowest(counts), ALLOWED[what]) > 0


def fluctuations(kept: int) -> Iterable[list[float]]:
    """Of a thousand times what is kept, in each phase of periods within a stretch."""
    for shape in SHAPES.values():
        for period in range(1, STRETCH + 1):
            for phase in range(period):
                yield [kept * more // 10**6 for more in periodic(shape, period, phase)]
