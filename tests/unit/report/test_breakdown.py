"""What stands beside a breakdown, from the figures of 8 H200."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.launch.faults import RankFailure, RankFault
from fixtures.report.breakdown import COLUMNS, BreakdownRow, breakdown_lines, remarks
from fixtures.report.breakdown_columns import findings
from fixtures.session.explanation import Explanation, until_it_is_the_measured_step
from fixtures.session.run_state import Judged, Run
from fixtures.stats.verdict import judge
from fixtures.trace.ranks_breakdown import Breakdown
from tests.builders import SETTINGS, measured
from tests.h200 import POWERSGD, all_reduces, on_ranks, step

KILLED = RankFailure([RankFault(rank=1, kind="died", step=3, phase="backward", message="died of SIGKILL")], "profiling")


def beside(breakdown: Breakdown, unprofiled_step_ms: float) -> tuple[str, str]:
    """How much slower the profiled steps are in the table, and the row's remarks below it."""
    explanation = Explanation(breakdown=breakdown, unprofiled_step_ms=unprofiled_step_ms)
    (slower,) = [column for column in COLUMNS if column.title == "slower"]
    return slower.text(BreakdownRow(cell=("", "", "", ""), explanation=explanation)), remarks(explanation)


@pytest.mark.parametrize(
    ("steps_ms", "taken", "rough"),
    [([91], 1, False), ([120, 91], 2, False), ([120, 130, 98], 3, False), ([120, 130, 140], 3, True)],
)
def test_a_launch_that_the_profiler_slowed_is_taken_again(steps_ms: list[float], taken: int, rough: bool) -> None:
    slowed = iter(steps_ms)
    plain = step(84.76, 0.61, 1.76, 2.87)

    def launch() -> Explanation:
        return Explanation(breakdown=on_ranks((plain,)), unprofiled_step_ms=90 * 90 / next(slowed))

    found = until_it_is_the_measured_step(launch, 3)
    assert (found.launches, found.rough) == (taken, rough)
    assert found.to_record().profiled_launches == taken
    assert list(slowed) == []


def test_a_further_launch_that_fails_leaves_the_one_before() -> None:
    def launches() -> Iterator[Explanation]:
        yield Explanation(
            breakdown=on_ranks((step(84.76, 0.61, 1.76, 2.87),)),
            unprofiled_step_ms=60,
            traces=(Path("ddp-rank0.json.gz"),),
        )
        raise KILLED

    left = launches()
    found = until_it_is_the_measured_step(lambda: next(left), 3)
    assert (found.launches, found.failed_again, found.traces) == (2, str(KILLED), ())
    assert remarks(found) == "rough, profiling again failed"


def test_a_first_launch_that_fails_is_a_failure() -> None:
    def launch() -> Explanation:
        raise KILLED

    with pytest.raises(RankFailure, match="SIGKILL"):
        until_it_is_the_measured_step(launch, 3)


def together(*all_reduces_us: tuple[int, ...]) -> Breakdown:
    """One step of 90 ms on each rank, with these all-reduces."""
    return on_ranks(
        *((replace(step(84.76, 0.61, 1.76, 2.87), collectives=all_reduces(*of_rank)),) for of_rank in all_reduces_us)
    )


def test_a_few_profiled_steps_that_took_long_make_a_breakdown_rough() -> None:
    slower, remark = beside(POWERSGD, 97.82)
    assert slower == "+13.4"  # the median step is 3 % longer
    assert remark.startswith("rough, steps of 100 to 131 ms; ")


def test_steps_that_are_all_slow_are_rough_without_their_range() -> None:
    breakdown = on_ranks((step(100, 0, 0, 0), step(101, 0, 0, 0)))
    assert beside(breakdown, 90) == ("+11.7", "rough")


def test_a_host_that_waits_and_then_starves_the_device_is_reported_also_where_it_is_not_launch_bound() -> None:
    typical = on_ranks(*(rank.steps[1:4] for rank in POWERSGD.ranks))
    _, remark = beside(typical, 97.82)
    assert "starved 4.8 ms; the host waits for the GPU 1 x a step" in remark
    assert "launch-bound" not in remark


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


def test_a_sharded_model_has_its_collectives_by_kind_in_the_remarks() -> None:
    first, second, third = all_reduces(1500, 2500, 800)
    sharded = (replace(first, what="all_gather"), replace(second, what="all_gather"), third)
    breakdown = on_ranks(
        (replace(step(80, 5, 0, 4.62), collectives=(*sharded, replace(third, what="reduce_scatter"))),)
    )
    assert beside(breakdown, 89.62)[1] == "2 all_gather 4.00 ms, 1 reduce_scatter 0.80 ms"
    assert breakdown.collectives_ms == {"all_gather": 4.0, "all_reduce": 0.8, "reduce_scatter": 0.8}
    assert "other collectives a step: 2 all_gather 4.00 ms, 1 reduce_scatter 0.80 ms" in findings(breakdown)


# Below the table


def profiled(*configs: str) -> list[str]:
    """The lines of a run in which these were profiled, one test each, and another test was not."""
    device = replace(step(80, 5, 0, 5), ahead_ns=7_000_000, phase_ns={"forward": 25_000_000, "backward": 60_000_000})
    explanation = Explanation(breakdown=on_ranks((device,)), unprofiled_step_ms=89)
    run = Run(settings=SETTINGS)
    for config in (*configs, "no_comm"):
        run.measured[f"perf/test_{config}"] = Judged(
            measurement=measured(config, 11),
            verdict=judge([0.09], []),
            explanation=None if config == "no_comm" else explanation,
        )
    return breakdown_lines(run)


def test_one_profiled_test_is_listed_with_what_its_traces_would_show() -> None:
    lines = profiled("ddp")
    assert "phases on the device, ms: forward 25.00, backward 60.00" in lines
    assert any(line.startswith("not launch-bound: the host launches 7.00 ms ahead; ") for line in lines)


def test_of_several_it_is_not() -> None:
    assert not any("phases on" in line or "ms ahead" in line for line in profiled("ddp", "bf16"))
