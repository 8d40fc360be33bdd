"""The lines next to a breakdown, from the figures of 8 H200."""

from dataclasses import replace

import pytest

from fixtures.report.profiles import COLUMNS, BreakdownRow, breakdown_lines, findings, remarks
from fixtures.session.explanation import explanation_of
from fixtures.session.run_state import Run
from fixtures.stats.verdict import judge
from fixtures.trace.breakdown import Breakdown
from fixtures.trace.profile import profile_of
from tests.builders import SETTINGS, case_of, measured
from tests.h200 import POWERSGD, all_reduces, on_ranks, step


def remarks_of(breakdown: Breakdown, measured_step_ms: float) -> str:
    return remarks(explanation_of(breakdown, measured_step_ms))


def starved(step_ms: float, starved_ms: float) -> Breakdown:
    return on_ranks((replace(step(80, 0, 0, step_ms - 80), starved_ns=round(1e6 * starved_ms), waits=1),))


@pytest.mark.parametrize(
    ("breakdown", "measured_step_ms", "says"),
    [
        (starved(90, 5), 90, ""),
        (POWERSGD, POWERSGD.step_ms - 18, "18 ms longer than measured, because the profiler slows the host"),
        (on_ranks((step(84.76, 0.61, 1.76, 2.87),)), 89.62, ""),
    ],
)
def test_a_row_says_what_is_odd_in_it(breakdown: Breakdown, measured_step_ms: float, says: str) -> None:
    assert remarks_of(breakdown, measured_step_ms) == says


def test_where_the_profiler_slows_the_host_both_steps_are_shown() -> None:
    explanation = explanation_of(starved(110, 30), 90)
    assert remarks(explanation) == "20 ms longer than measured, because the profiler slows the host"
    row = BreakdownRow(cell=("", "", "", ""), explanation=explanation)
    shown = {f"{column.title} {column.unit}": column.text(row) for column in COLUMNS}
    assert (shown["step ms"], shown["measured step ms"]) == ("110.00", "90.00")
    record = explanation.profile
    assert (record.profiled_step_ms, record.measured_step_ms) == (110, 90)


def test_a_sharded_model_has_its_collectives_by_kind_in_the_remarks() -> None:
    first, second, third = all_reduces(1500, 2500, 800)
    sharded = (replace(first, what="all_gather"), replace(second, what="all_gather"), third)
    breakdown = on_ranks(
        (replace(step(80, 5, 0, 4.62), collectives=(*sharded, replace(third, what="reduce_scatter"))),)
    )
    assert remarks_of(breakdown, 89.62) == "2 all_gather 4.00 ms, 1 reduce_scatter 0.80 ms"
    assert profile_of(breakdown).collectives_ms == {"all_gather": 4.0, "all_reduce": 0.8, "reduce_scatter": 0.8}
    assert "other collectives a step: 2 all_gather 4.00 ms, 1 reduce_scatter 0.80 ms" in findings(breakdown)


# Below the table


def profiled(*configs: str) -> list[str]:
    """The lines of a run in which these were profiled, one test each, and another test was not."""
    device = replace(step(80, 5, 0, 5), ahead_ns=7_000_000, phase_ns={"forward": 25_000_000, "backward": 60_000_000})
    explanation = explanation_of(on_ranks((device,)), 89)
    run = Run(settings=SETTINGS)
    for config in (*configs, "no_comm"):
        run.cases[f"perf/test_{config}"] = case_of(
            measurement=measured(config, 11),
            verdict=judge([0.09], []),
            explanation=None if config == "no_comm" else explanation,
        )
    return breakdown_lines(run)


def test_one_profiled_test_is_listed_with_what_its_traces_would_show_and_of_several_none() -> None:
    lines = profiled("ddp")
    assert "phases of rank 0 on the device, ms: forward 25.00, backward 60.00" in lines
    assert any(line.startswith("the host launches 7.00 ms ahead; ") for line in lines)
    assert not any("phases of" in line or "ms ahead" in line for line in profiled("ddp", "bf16"))
