"""Breakdowns with the figures of a real run: ViT-L/32 on 8 H200 (NV18), torch 2.11.0, NCCL 2.28.9."""

from dataclasses import replace
from itertools import accumulate

from fixtures.trace.breakdown import Breakdown, Collective, Parts, RankBreakdown, StepBreakdown, over_ranks


def step(compute_ms: float, communication_ms: float, copy_ms: float, idle_ms: float) -> StepBreakdown:
    """A step of these four parts; no communication but the exposed."""
    compute_ns, communication_ns, copy_ns, idle_ns = (
        round(1e6 * ms) for ms in (compute_ms, communication_ms, copy_ms, idle_ms)
    )
    return StepBreakdown(
        name="Batch 11",
        parts_ns=Parts(compute_ns, communication_ns, copy_ns, idle_ns),
        communication_ns=communication_ns,
        collectives=(),
        copies={},
        phase_ns={},
        starved_ns=0,
        unfed_ns=0,
        ahead_ns=None,
        waits=0,
        waits_ns=0,
    )


def all_reduces(*durations_us: int) -> tuple[Collective, ...]:
    """One after another, with nothing at the same time."""
    return tuple(
        Collective(what="all_reduce", ns=1000 * us, start_ns=1000 * start_us, ready_ns=None, exposed_ns=1000 * us)
        for us, start_us in zip(durations_us, accumulate(durations_us, initial=0), strict=False)
    )


def on_ranks(*ranks: tuple[StepBreakdown, ...]) -> Breakdown:
    """The steps of each rank."""
    return over_ranks(
        [RankBreakdown(source=f"rank{rank}", rank=rank, on_gpu=True, steps=steps) for rank, steps in enumerate(ranks)]
    )


def powersgd_step(
    parts_ms: tuple[float, float, float, float], starved_ms: float, *all_reduces_us: int
) -> StepBreakdown:
    """A step of bf16_powersgd_rank1, whose hook waits for the device at its end."""
    return replace(
        step(*parts_ms),
        starved_ns=round(1e6 * starved_ms),
        waits=1,
        collectives=all_reduces(*all_reduces_us),
    )


# Two of the eight ranks; the first and the last of the five profiled steps took long.
POWERSGD = on_ranks(
    (
        powersgd_step((85.99, 0.81, 2.05, 30.05), 26.12, 168, 459, 186),
        powersgd_step((86.06, 0.69, 2.17, 11.50), 4.64, 502, 120, 67),
        powersgd_step((85.93, 1.86, 2.11, 10.92), 4.30, 1608, 108, 145),
        powersgd_step((86.05, 1.22, 2.13, 11.84), 5.26, 991, 121, 106),
        powersgd_step((85.95, 13.68, 2.08, 28.23), 23.16, 6345, 3225, 4107),
    ),
    (
        powersgd_step((85.92, 24.80, 2.13, 11.64), 4.56, 17850, 2966, 3987),
        powersgd_step((85.85, 0.40, 2.15, 12.91), 5.49, 350, 26, 26),
        powersgd_step((86.04, 0.10, 2.12, 12.19), 4.89, 50, 25, 28),
        powersgd_step((85.87, 0.08, 2.15, 11.64), 4.10, 29, 25, 27),
        powersgd_step((86.00, 0.12, 2.16, 43.28), 38.98, 29, 66, 28),
    ),
)
