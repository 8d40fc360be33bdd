"""What stands beside a breakdown, from the figures of 8 H200."""

from dataclasses import replace

import pytest

from fixtures.explain.ranks_breakdown import Breakdown
from fixtures.judge.explanation import Explanation
from fixtures.report.breakdown import remarks
from tests.h200 import POWERSGD, all_reduces, on_ranks, step


def beside(breakdown: Breakdown, unprofiled_step_ms: float) -> tuple[str, str]:
    return remarks(Explanation(breakdown=breakdown, unprofiled_step_ms=unprofiled_step_ms))


def together(*all_reduces_us: tuple[int, ...]) -> Breakdown:
    """One step of 90 ms on each rank, with these all-reduces."""
    return on_ranks(
        *((replace(step(84.76, 0.61, 1.76, 2.87), collectives=all_reduces(*of_rank)),) for of_rank in all_reduces_us)
    )


def test_a_few_profiled_steps_that_took_long_make_a_breakdown_rough() -> None:
    slower, said = beside(POWERSGD, 97.82)
    assert slower == "+13.4"  # the median step is 3 % longer
    assert said.startswith("rough, steps of 100 to 131 ms; ")


def test_steps_that_are_all_slow_are_rough_without_their_range() -> None:
    breakdown = on_ranks((step(100, 0, 0, 0), step(101, 0, 0, 0)))
    assert beside(breakdown, 90) == ("+11.7", "rough")


def test_a_host_that_waits_and_then_starves_the_device_is_said_also_where_it_is_not_launch_bound() -> None:
    typical = on_ranks(*(rank.steps[1:4] for rank in POWERSGD.ranks))
    _, said = beside(typical, 97.82)
    assert "starved 4.8 ms; the host waits for the GPU 1 x a step" in said
    assert "launch-bound" not in said


def test_a_rank_that_keeps_the_others_waiting_is_named() -> None:
    assert "rank 1 late in 12 of 15 collectives" in beside(POWERSGD, 97.82)[1]


@pytest.mark.parametrize(
    "breakdown",
    [
        # Ranks in turn, as in ddp_default: nobody is late in more than half of them.
        together((215, 300, 300, 1000), (300, 215, 300, 3000), (300, 300, 215, 3000)),
        # Rank 1 in all of them, but for 0.4 % of a step, as in bf16.
        together((3300, 3300), (2900, 2900)),
    ],
)
def test_lateness_that_is_no_ranks_own_or_costs_nothing_is_not_said(breakdown: Breakdown) -> None:
    waiting = breakdown.waiting()
    assert waiting is not None
    assert waiting.late
    assert beside(breakdown, 89.62)[1] == ""


def test_a_table_of_even_steps_has_no_remarks() -> None:
    assert beside(on_ranks((step(84.76, 0.61, 1.76, 2.87),)), 89.62) == ("+0.4", "")
