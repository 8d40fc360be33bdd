"""What communication costs a step, from recordings made by hand and from the figures of 8 H200."""

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.explain.breakdown import break_down
from fixtures.explain.cost import Cost
from fixtures.explain.exposed import Exposed
from fixtures.explain.ranks_breakdown import Breakdown, over_ranks
from fixtures.explain.recordings import read
from fixtures.judge.run import Judged, Run
from fixtures.judge.verdict import judge
from fixtures.matrix.configs import CONFIGS, THROUGHPUT
from fixtures.report.cost import cost_lines, exposed_lines
from tests.h200 import broken_down
from tests.recordings import GEMM, NCCL, NCCL_STREAM, Recording
from tests.test_comparison_and_table import SETTINGS, launch, measured

ADDED = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>>"


def recorded(recording: Recording, tmp_path: Path) -> Breakdown:
    (timeline,) = read(recording.chrome(tmp_path / "rank0.json"))
    return over_ranks([break_down(timeline)])


def beside(*, communicates: bool) -> Recording:
    """Two steps of two GEMMs of 100 us; with communication 20 us longer, and a kernel of 30 us more."""
    recording = Recording()
    for step in range(2):
        start = 1000 * step
        recording.range(f"Batch {step}", start, start + 50)
        gemm_us = 120 if communicates else 100
        for number in range(2):
            begin = start + 200 * number
            recording.run(GEMM, begin, begin + gemm_us, at=start + 1)
        if communicates:
            recording.run(NCCL, start + 10, start + 360, at=start + 2, stream=NCCL_STREAM)
            recording.run(ADDED, start + 400, start + 430, at=start + 3)
    return recording


@pytest.fixture
def cost(tmp_path: Path) -> Cost:
    now, limit = (recorded(beside(communicates=one), tmp_path) for one in (True, False))
    return Cost.of(now, limit, without="no_comm", rough=False)


def test_compute_is_parted_into_the_same_kernels_and_others(cost: Cost) -> None:
    assert cost.same_kernels_ms == pytest.approx(0.040)
    assert cost.compute_ms == pytest.approx(0.070)


def test_the_parts_add_up_to_the_difference_of_the_steps(cost: Cost, tmp_path: Path) -> None:
    now, limit = (recorded(beside(communicates=one), tmp_path) for one in (True, False))
    assert cost.step_ms == pytest.approx(now.step_ms - limit.step_ms, abs=1e-9)


def test_a_kernel_launched_more_often_is_none_of_the_same(tmp_path: Path) -> None:
    more = beside(communicates=False)
    for step in range(2):
        more.run(GEMM, 1000 * step + 500, 1000 * step + 600, at=1000 * step + 4)
    now, limit = recorded(more, tmp_path), recorded(beside(communicates=False), tmp_path)
    cost = Cost.of(now, limit, without="no_comm", rough=False)
    assert cost.same_kernels_ms == 0
    assert cost.compute_ms == pytest.approx(0.1)


# In the same kernels: as of the same run's static_graph_bucket_view, whose all-reduce has nothing beside it.
NO_COMM = broken_down(81.075, 0, 1.932, 3.130)
DDP_DEFAULT = Exposed(
    step_ms=89.92,
    profiler_ms=0.613,
    no_sync_ms=5.581,
    no_comm_ms=3.916,
    cost=replace(
        Cost.of(broken_down(84.758, 0.613, 1.759, 2.867), NO_COMM, without="no_comm", rough=False), same_kernels_ms=2.85
    ),
)


def test_small_buckets_cost_what_they_slow_down_not_what_is_exposed() -> None:
    *_, line = cost_lines({"ddp_default": DDP_DEFAULT})
    assert line == (
        "ddp_default: 3.86 ms a step more than no_comm: 3.68 compute (2.85 in the same kernels, 0.83 in others), "
        "0.61 exposed communication, -0.26 idle, -0.17 exposed copies"
    )


def test_parts_that_are_nothing_are_not_said() -> None:
    late = Cost.of(broken_down(92.9, 40.84, 0, 23.25), broken_down(92.77, 0, 0, 23.25), without="no_comm", rough=True)
    said = replace(late, same_kernels_ms=None).says()
    assert said == "40.97 ms a step more than no_comm (rough): 40.84 exposed communication, 0.13 compute"


def test_without_a_breakdown_of_no_comm_it_is_said_once_what_would_tell() -> None:
    alone = replace(DDP_DEFAULT, cost=None)
    lines = cost_lines({"ddp_default": alone, "bf16": replace(alone, step_ms=91.78)})
    assert [line.partition(":")[0] for line in lines[-3:-1]] == ["ddp_default", "bf16"]
    assert "disagree by 89 %" in lines[-2]
    assert lines[-1].endswith("profile both in one run")


def test_ways_that_agree_need_no_words() -> None:
    agreeing = Exposed(step_ms=92, profiler_ms=6.2, no_sync_ms=6.9, no_comm_ms=6.0)
    assert len(cost_lines({"static_graph": agreeing})) == 4  # two lines of headers, a rule, its row


def test_a_table_has_the_parts_only_where_a_config_has_them() -> None:
    limit = Exposed(step_ms=86, no_sync_ms=1.56)
    lines = cost_lines({"ddp_default": DDP_DEFAULT, "no_comm": limit})
    row, of_limit = (next(line for line in lines if line.startswith(name)) for name in ("ddp_default ", "no_comm "))
    assert row.split()[1:] == ["0.61", "5.58", "3.92", "89", "+3.86", "+3.68", "+2.85", "+0.61", "-0.17", "-0.26"]
    assert of_limit.split()[1:] == ["-", "1.56", *"--------"]
    assert "over" not in cost_lines({"no_comm": limit})[0]


# Without a profile


def run_of(**exposed_ms: float | None) -> Run:
    """Config -> exposed communication by no_sync, of steps of 100 ms, each measured by a test of its own."""
    run = Run(settings=SETTINGS)
    for config, ms in exposed_ms.items():
        by_no_sync = replace(launch(0.1), exposed_s=None if ms is None else ms / 1e3)
        run.judged[f"perf/test_{config}"] = Judged(
            measurement=measured(config, 0, launches=(by_no_sync,)), verdict=judge([0.1], [])
        )
    return run


def test_two_ways_stand_side_by_side_also_where_nothing_was_profiled() -> None:
    run = run_of(ddp=10, no_comm=None)
    run.judged["perf/test_ddp"] = replace(
        run.judged["perf/test_ddp"],
        measurement=measured("ddp", 0, launches=(replace(launch(0.108), exposed_s=0.010),)),
    )
    table = exposed_lines(run)
    assert table[1] == "what communication costs a step of vit_l_32 on 8gpu"
    assert [line.split() for line in table if line.startswith(("ddp ", "no_comm "))] == [
        ["ddp", "-", "10.00", "8.00", "20"]
    ]
    assert not any(line.startswith("ddp:") for line in table)


def test_one_way_alone_is_no_table() -> None:
    assert exposed_lines(run_of(ddp=10, bf16=5)) == []
    assert exposed_lines(run_of(no_comm=1)) == []


def test_of_many_tests_those_are_shown_whose_ways_lie_furthest_apart() -> None:
    configs = (*THROUGHPUT[:7], "bucket_10mb", "bucket_25mb", "bucket_50mb")
    table = exposed_lines(run_of(**{config: float(ms) for ms, config in enumerate(configs)}, no_comm=None))
    rows = [line.split()[0] for line in table if line.split()[:1] and line.split()[0] in CONFIGS]
    assert rows == list(configs[2:])
    assert "and 2 more, whose ways lie less far apart: exposed_communication_ms in the record" in table
