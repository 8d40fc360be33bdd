"""Oracles of drift and growth over steps."""

import math
import random
from collections.abc import Callable, Iterable, Sequence

import pytest
import torch
from torch import Tensor

from fixtures.gradients.in_rank.hook_steps import ALLOWED, STRETCH, STRETCHES, growth
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


# Growth of counts: a count that only fluctuates does not grow; a growing count is found under any fluctuation


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
