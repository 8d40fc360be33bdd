"""Cost of communication, from hand-made recordings and from measurements on 8 H200s."""

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.matrix.configs import CONFIGS, THROUGHPUT
from fixtures.report.cost import cost_lines, exposed_lines
from fixtures.session.run_advice import exposed_ways
from fixtures.session.run_state import Judged, Run
from fixtures.stats.verdict import judge
from fixtures.trace.breakdown import break_down
from fixtures.trace.cost import Cost
from fixtures.trace.exposed import Exposed
from fixtures.trace.ranks_breakdown import Breakdown, over_ranks
from fixtures.trace.recordings import read
from tests.builders import SETTINGS, launch, measured, unwrapped
from tests.h200 import broken_down
from tests.recordings import GEMM, NCCL, NCCL_STREAM, Recording

ADDED = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>>"


def recorded(recording: Recording, tmp_path: Path) -> Breakdown:
    (timeline,) = read(recording.chrome(tmp_path / "rank0.json"))
    return over_ranks([break_down(timeline)])


def gemm_steps(*, communicates: bool) -> Recording:
    """Two steps with two GEMMs of 100 us. With communication they take 20 us longer, and a kernel takes 30 us."""
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
    now, limit = (recorded(gemm_steps(communicates=flag), tmp_path) for flag in (True, False))
    return Cost.of(now, limit, without="no_comm")


def test_compute_is_split_into_common_and_additional_kernels(cost: Cost) -> None:
    assert cost.same_kernels_ms == pytest.approx(0.040)
    assert cost.compute_ms == pytest.approx(0.070)


def test_the_parts_add_up_to_the_difference_of_the_steps(cost: Cost, tmp_path: Path) -> None:
    now, limit = (recorded(gemm_steps(communicates=flag), tmp_path) for flag in (True, False))
    assert cost.step_ms == pytest.approx(now.step_ms - limit.step_ms, abs=1e-9)


def test_a_kernel_launched_more_often_is_not_a_common_kernel(tmp_path: Path) -> None:
    more = gemm_steps(communicates=False)
    for step in range(2):
        more.run(GEMM, 1000 * step + 500, 1000 * step + 600, at=1000 * step + 4)
    now, limit = recorded(more, tmp_path), recorded(gemm_steps(communicates=False), tmp_path)
    cost = Cost.of(now, limit, without="no_comm")
    assert cost.same_kernels_ms == 0
    assert cost.compute_ms == pytest.approx(0.1)


# same_kernels_ms comes from static_graph_bucket_view of the same run, whose all-reduce overlaps with nothing.
NO_COMM = broken_down(81.075, 0, 1.932, 3.130)
DDP_DEFAULT = Exposed(
    step_ms=89.92,
    profiler_ms=0.613,
    no_sync_ms=5.581,
    no_comm_ms=3.916,
    cost=replace(Cost.of(broken_down(84.758, 0.613, 1.759, 2.867), NO_COMM, without="no_comm"), same_kernels_ms=2.85),
)


def row_of(lines: list[str], config: str) -> list[str]:
    (row,) = [line for line in lines if line.startswith(f"{config} ")]
    return row.split()[1:]


def test_the_parts_of_a_healthy_run_add_up_without_a_warning() -> None:
    lines = cost_lines({"ddp_default": DDP_DEFAULT})
    assert len(lines) == 4  # two lines of headers, a rule, its row
    assert row_of(lines, "ddp_default") == ["5.58", "3.92", "0.61", "-0.17", "+2.85", "+0.57", "+3.86"]
    cost = DDP_DEFAULT.cost
    assert cost is not None
    parts_ms = (cost.exposed_communication_ms, cost.exposed_copy_ms, cost.slowed_ms, cost.rest_ms)
    assert sum(parts_ms) == pytest.approx(cost.step_ms)


def test_the_parts_of_a_recording_add_up_to_the_difference_of_its_steps(cost: Cost) -> None:
    assert (cost.slowed_ms, cost.rest_ms + cost.exposed_communication_ms) == pytest.approx(
        (0.040, cost.step_ms - 0.040), abs=1e-9
    )


def test_on_the_cpu_all_compute_counts_as_slowed() -> None:
    late = Cost.of(broken_down(92.9, 40.84, 0, 23.25), broken_down(92.77, 0, 0, 23.2), without="no_comm")
    late = replace(late, same_kernels_ms=None)
    assert (late.slowed_ms, late.rest_ms) == pytest.approx((0.13, 0.05))


def test_a_profiled_step_shorter_than_without_communication_is_noise() -> None:
    shorter = Cost.of(broken_down(77.86, 0, 0, 0), broken_down(81.08, 0, 0, 0), without="no_comm")
    *_, line = cost_lines({"ddp": Exposed(step_ms=90, profiler_ms=0, no_comm_ms=1, cost=shorter)})
    assert line == "ddp: 3.2 ms faster than no_comm: profiler noise, ignore"


def test_disagreeing_sums_are_reported_below_the_table() -> None:
    *_, line = unwrapped(cost_lines({"ddp_default": replace(DDP_DEFAULT, no_comm_ms=9.1, noise_ms=0.5)}))
    assert line.startswith(
        "ddp_default: the step is 3.86 ms longer than no_comm's when profiled and 9.10 ms longer when measured: "
    )


def test_without_a_breakdown_of_no_comm_one_line_says_how_to_get_one() -> None:
    alone = replace(DDP_DEFAULT, cost=None)
    lines = cost_lines({"ddp_default": alone, "bf16": replace(alone, step_ms=91.78)})
    assert row_of(lines, "bf16") == ["5.58", "3.92", "0.61"]
    assert lines[5:] == [
        "For the full cost of communication, profile no_comm too: "
        'pytest perf --explain all -k "ddp_default or bf16 or no_comm"'
    ]


def test_methods_that_agree_need_no_warning() -> None:
    agreeing = Exposed(step_ms=92, profiler_ms=6.2, no_sync_ms=6.9, no_comm_ms=6.0)
    assert len(cost_lines({"static_graph": agreeing})) == 4  # two lines of headers, a rule, its row


def test_the_table_has_the_parts_only_if_a_config_has_them() -> None:
    limit = Exposed(step_ms=86, no_sync_ms=1.56)
    lines = cost_lines({"ddp_default": DDP_DEFAULT, "no_comm": limit})
    assert row_of(lines, "no_comm") == ["1.56", *"------"]
    assert "slowed" not in "".join(cost_lines({"no_comm": limit})[:2])
    assert "transfer" not in "".join(cost_lines({"no_comm": limit})[:2])


# Without a profile


def run_of(**exposed_ms: float | None) -> Run:
    """Run with one test for each config, with steps of 100 ms; config -> exposed communication by no_sync."""
    run = Run(settings=SETTINGS)
    for config, ms in exposed_ms.items():
        by_no_sync = replace(launch(0.1), exposed_s=None if ms is None else ms / 1e3)
        run.measured[f"perf/test_{config}"] = Judged(
            measurement=measured(config, 0, launches=(by_no_sync,)), verdict=judge([0.1], [])
        )
    return run


def test_two_methods_are_shown_side_by_side_even_without_a_profile() -> None:
    run = run_of(ddp=10, no_comm=None)
    run.measured["perf/test_ddp"] = replace(
        run.judged["perf/test_ddp"],
        measurement=measured("ddp", 0, launches=(replace(launch(0.108), exposed_s=0.010),)),
    )
    table = exposed_lines(run)
    assert table[1] == "what communication costs a step of vit_l_32 on 8gpu, in ms"
    assert [line.split() for line in table if line.startswith(("ddp ", "no_comm "))] == [["ddp", "10.00", "8.00"]]
    assert not any(line.startswith("ddp:") for line in table)


def test_one_method_alone_has_no_table() -> None:
    assert exposed_lines(run_of(ddp=10, bf16=5)) == []
    assert exposed_lines(run_of(no_comm=1)) == []


def test_of_many_tests_the_table_shows_those_whose_methods_differ_most() -> None:
    configs = (*THROUGHPUT[:7], "bucket_10mb", "bucket_25mb", "bucket_50mb")
    table = exposed_lines(run_of(**{config: float(ms) for ms, config in enumerate(configs)}, no_comm=None))
    rows = [line.split()[0] for line in table if line.split()[:1] and line.split()[0] in CONFIGS]
    assert rows == list(configs[2:])
    assert "2 more configs agree better; see exposed_communication_ms in the JSON." in table


def test_the_noise_of_the_sums_is_the_spread_of_the_launches() -> None:
    run = Run(settings=SETTINGS)
    for config, times_s in {"ddp": (0.100, 0.102, 0.104), "no_comm": (0.090, 0.092, 0.095)}.items():
        run.measured[f"perf/test_{config}"] = Judged(
            measurement=measured(config, 0, launches=tuple(launch(time_s) for time_s in times_s)),
            verdict=judge(times_s, []),
        )
    (ddp,) = [exposed for cell, exposed in exposed_ways(run).items() if cell[3] == "ddp"]
    # Differences of 10, 10 and 9 ms: t(0.975, 2) = 4.303 times 0.577 ms times the root of 4/3.
    assert ddp.noise_ms == pytest.approx(2.868, abs=1e-3)
