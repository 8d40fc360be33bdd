"""Breakdown of one rank and over several, on hand-made recordings with known parts."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.matrix.recorded import json_of
from fixtures.trace.breakdown import Breakdown, RankBreakdown, StepBreakdown, Waiting, break_down, over_ranks
from fixtures.trace.profile import parts_ms, profile_of
from fixtures.trace.timeline import BadTrace, HostInterval, Kind, Operation, Timeline
from tests.h200 import POWERSGD
from tests.recordings import AUTOGRAD, GEMM, NCCL, NCCL_STREAM, OTHER, Recording, ddp_steps, sqlite, timelines

US = 1000


@pytest.fixture(params=["trace.json", "trace.json.gz", "export.sqlite"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Path of a recording; its suffix selects the format."""
    path: Path = tmp_path / request.param
    return path


def breakdown(recording: Recording, file: Path) -> RankBreakdown:
    """Write a recording to this file, read it back, and break it down."""
    file.unlink(missing_ok=True)
    (timeline,) = timelines(sqlite(file, [recording]) if file.suffix == ".sqlite" else recording.chrome(file))
    return break_down(timeline)


def only_step(recording: Recording, file: Path) -> StepBreakdown:
    (step,) = breakdown(recording, file).steps
    return step


def test_a_step_has_the_parts_the_counts_and_the_phases_of_its_timeline(file: Path) -> None:
    """The first marked step gives the start of the second. Another thread launches the backward pass."""
    steps = breakdown(ddp_steps(steps=3), file).steps
    assert [step.name for step in steps] == ["Batch 1", "Batch 2"]
    for step in steps:
        assert step.parts_ns == (750 * US, 180 * US, 50 * US, 20 * US)
        assert (step.length_ns, step.communication_ns) == (1000 * US, 400 * US)
    step = steps[0]
    assert [(c.what, c.ns) for c in step.collectives] == [("all_reduce", 200 * US)] * 2
    assert step.copies == {"HtoD": 1, "DtoD": 1}
    assert step.kernels["ncclDevKernel_AllReduce_Sum_f32_RING_LL"] == (400 * US, 2)
    assert "Memcpy HtoD" in step.kernels
    assert step.kernels[GEMM][1] > 1
    phases_us = {"get batch": 20, "forward": 300, "backward": 610, "optimizer step": 50}
    assert step.phase_ns == {phase: us * US for phase, us in phases_us.items()}


def test_a_single_step_begins_with_its_first_work_and_concurrent_compute_counts_once(file: Path) -> None:
    assert only_step(ddp_steps(steps=1), file).length_ns == 1000 * US
    recording = Recording()
    recording.range("Batch 0", 0, 50)
    recording.run(GEMM, 100, 200, at=10, stream=7)
    recording.run(GEMM, 150, 300, at=11, stream=8)
    assert only_step(recording, file).parts_ns == (200 * US, 0, 0, 0)


def test_the_same_content_in_every_kind_of_file_gives_the_same_breakdown(tmp_path: Path) -> None:
    recording = ddp_steps()
    files = [tmp_path / name for name in ("a.json", "a.json.gz", "a.sqlite")]
    first, *others = (replace(breakdown(recording, file), source="", rank=None) for file in files)
    assert others == [first, first]


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "_Z42ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    ],
)
def test_kernels_of_every_generation_of_nccl_are_communication(name: str, tmp_path: Path) -> None:
    now, then = (breakdown(ddp_steps(nccl=nccl), tmp_path / "trace.json").steps for nccl in (NCCL, name))
    assert [replace(step, kernels={}) for step in then] == [replace(step, kernels={}) for step in now]


def graph_steps() -> Recording:
    """Steps that each replay one graph: compute 0-100, a concurrent all-reduce 60-160, compute 160-200."""
    recording = Recording()
    for step in range(3):
        host, device = 50 * step, 1000 + 200 * step
        recording.range(f"Batch {step}", host, host + 40)
        graph = recording.call("cudaGraphLaunch", host + 10)
        recording.run(GEMM, device, device + 100, at=0, by=graph)
        recording.run(NCCL, device + 60, device + 160, at=0, by=graph, stream=20)
        recording.run(GEMM, device + 160, device + 200, at=0, by=graph)
    return recording


def test_every_kernel_of_a_graph_replay_counts_and_the_first_one_defines_the_lead_of_the_host(file: Path) -> None:
    steps = breakdown(graph_steps(), file).steps
    for step in steps:
        assert step.parts_ns == (140 * US, 60 * US, 0, 0)
        assert [(c.what, c.ns) for c in step.collectives] == [("all_reduce", 100 * US)]
    assert steps[0].ahead_ns == 1140 * US


def test_a_graph_recorded_as_one_piece_is_counted(tmp_path: Path) -> None:
    (timeline,) = timelines(sqlite(tmp_path / "export.sqlite", [graph_steps()], graph=True))
    found = break_down(timeline)
    assert found.opaque_graphs == 3
    assert found.steps[0].parts_ns == (200 * US, 0, 0, 0)


def starved_steps(*, fed: bool) -> Recording:
    """In step 1 the GPU is idle 1100-1300, and its next kernel is launched at 1290.

    fed: the host does not fetch a batch during the gap.
    """
    recording = Recording()
    recording.range("Batch 0", 0, 50)
    recording.run(GEMM, 1000, 1100, at=10)
    recording.range("Batch 1", 1050, 1400)
    recording.range("forward" if fed else "get batch", 1060, 1292)
    recording.run(GEMM, 1300, 1400, at=1290)
    recording.run(GEMM, 1450, 1500, at=1295)
    return recording


def test_a_gap_is_starved_if_the_next_work_was_launched_after_it_began_and_unfed_in_a_wait_for_a_batch(
    file: Path,
) -> None:
    step = only_step(starved_steps(fed=True), file)
    assert (step.parts_ns.idle, step.starved_ns, step.unfed_ns) == (250 * US, 200 * US, 0)
    assert step.ahead_ns == 82_500  # the median over its launches: 10 and 155 us
    step = only_step(starved_steps(fed=False), file)
    assert (step.starved_ns, step.unfed_ns) == (200 * US, 190 * US)


def test_only_threads_that_launch_count(file: Path) -> None:
    recording = ddp_steps()
    recording.call("cudaStreamSynchronize", 450, 480)
    recording.call("cudaDeviceSynchronize", 500, 510, thread=AUTOGRAD)
    recording.call("cudaEventSynchronize", 500, 600, thread=OTHER)
    step = breakdown(recording, file).steps[0]
    assert (step.waits, step.waits_ns) == (2, 40 * US)
    recording = ddp_steps()
    recording.range("get batch", 500, 700, thread=OTHER)
    recording.run("Memcpy HtoD (Pinned -> Device)", 2300, 2350, at=530, thread=OTHER, stream=9)
    assert breakdown(recording, file).steps[0].copies == {"HtoD": 1, "DtoD": 1}


def test_a_step_marked_twice_is_one_step(file: Path) -> None:
    recording = ddp_steps()
    for step in range(3):
        recording.range(f"Batch {step}", 400 * step, 400 * step + 379)
        recording.range("forward", 400 * step + 31, 400 * step + 99)
    assert breakdown(recording, file).steps == breakdown(ddp_steps(), file.with_name("once" + file.name)).steps


# Comparison with counting single nanoseconds

KINDS: tuple[Kind, ...] = ("compute", "collective", "copy", "memset")
WORK = st.tuples(st.sampled_from(KINDS), st.integers(0, 60), st.integers(1, 25), st.integers(0, 1))


def counted(work: list[tuple[Kind, int, int, int]], start: int, end: int) -> tuple[int, int, int, int]:
    """Parts from ``start`` to ``end``: each nanosecond counts for the first kind of work that covers it."""
    parts = [0, 0, 0, 0]
    for moment in range(start, end):
        now = {kind for kind, begin, duration, _ in work if begin <= moment < begin + duration}
        order = ("compute" in now, "collective" in now, bool(now & {"copy", "memset"}), True)
        parts[order.index(True)] += 1
    return parts[0], parts[1], parts[2], parts[3]


@given(st.lists(WORK, min_size=1, max_size=12), st.lists(WORK, min_size=1, max_size=12))
def test_the_parts_agree_with_counting_every_nanosecond(
    first: list[tuple[Kind, int, int, int]], second: list[tuple[Kind, int, int, int]]
) -> None:
    work = [*first, *((kind, 40 + start, duration, stream) for kind, start, duration, stream in second)]
    timeline = Timeline(
        source="drawn",
        rank=0,
        operations=tuple(
            Operation(
                kind=kind,
                name="",
                stream=stream,
                start_ns=start,
                end_ns=start + duration,
                launch=number,
                launched_ns=-100 if number < len(first) else -50,
                thread=1,
            )
            for number, (kind, start, duration, stream) in enumerate(work)
        ),
        ranges=(
            HostInterval(name="Batch 0", thread=1, start_ns=-100, end_ns=-51),
            HostInterval(name="Batch 1", thread=1, start_ns=-50, end_ns=-1),
        ),
    )
    (step,) = break_down(timeline).steps
    begin = max(start + duration for _, start, duration, _ in first)
    end = max(begin, *(40 + start + duration for _, start, duration, _ in second))
    assert step.parts_ns == counted(work, begin, end)
    assert sum(step.parts_ns) == step.length_ns


# Compute and collectives of a rank on the CPU


TRAIN, GLOO = 1, 2

# A backward pass that waits in a hook; the range of autograd's node covers all of it.
BACKWARD = (
    ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", TRAIN, 0, 100),
    ("torch::autograd::AccumulateGrad", TRAIN, 1, 99),
    ("aten::add_", TRAIN, 2, 12),
    ("c10d::allreduce_", TRAIN, 12, 16),
    ("aten::div_", GLOO, 62, 70),  # work of the hook after the collective
    ("aten::copy_", TRAIN, 65, 90),
)


def cpu_step(
    *host_operations: tuple[str, int, int, int], gloo: tuple[int, int] = (20, 60), on: int = GLOO
) -> StepBreakdown:
    """Break down a step from 0 to 120 with these operators, and one all-reduce of gloo on thread ``on``."""
    timeline = Timeline(
        source="drawn",
        rank=0,
        operations=(),
        ranges=(
            HostInterval(name="Batch 0", thread=TRAIN, start_ns=0, end_ns=120),
            HostInterval(name="gloo:all_reduce", thread=on, start_ns=gloo[0], end_ns=gloo[1]),
        ),
        host_operations=tuple(
            HostInterval(name=name, thread=thread, start_ns=start, end_ns=end)
            for name, thread, start, end in host_operations
        ),
    )
    (only,) = break_down(timeline).steps
    return only


@pytest.mark.parametrize(
    ("operators", "gloo", "parts_ns"),
    [
        (BACKWARD, (20, 60), (10 + 25, 4 + 40 + 3, 0, 38)),
        ([("aten::mm", TRAIN, 0, 50)], (20, 60), (50, 10, 0, 60)),  # compute covers a concurrent collective
        ([("aten::mm", 3, 60, 120)], (20, 60), (0, 40, 0, 80)),  # of another thread
        ([("c10d::allreduce_", TRAIN, 0, 10)], (5, 15), (0, 15, 0, 105)),  # handing over is no compute
        ([("c10d::allreduce_", TRAIN, 0, 10), ("aten::empty", TRAIN, 2, 4)], (20, 60), (0, 50, 0, 70)),
        # Ranges around operators are no work.
        ([("AddmmBackward0", TRAIN, 0, 120), ("aten::mm", TRAIN, 60, 70)], (20, 60), (10, 40, 0, 70)),
        ([("record_param_comms", TRAIN, 0, 120), ("aten::mm", TRAIN, 60, 70)], (20, 60), (10, 40, 0, 70)),
    ],
)
def test_the_training_thread_computes_communicates_or_waits(
    operators: list[tuple[str, int, int, int]], gloo: tuple[int, int], parts_ns: tuple[int, int, int, int]
) -> None:
    assert cpu_step(*operators, gloo=gloo).parts_ns == parts_ns


def test_a_collective_on_the_training_thread_keeps_the_operators_as_compute() -> None:
    found = cpu_step(("aten::mm", TRAIN, 70, 90), on=TRAIN)
    assert (found.parts_ns.compute, found.communication_ns) == (20, 40)
    assert (found.starved_ns, found.ahead_ns, found.copies) == (0, None, {})  # quantities of a GPU


def test_a_collective_lasts_as_gloos_range_is_ready_when_handed_over_and_exposed_while_nothing_computes() -> None:
    (only,) = cpu_step(*BACKWARD).collectives
    assert (only.what, only.ns) == ("all_reduce", 40)
    assert (only.ready_ns, only.start_ns, only.exposed_ns) == (12, 20, 40)
    (only,) = cpu_step(("c10d::allreduce_", TRAIN, 0, 10), ("aten::mm", TRAIN, 15, 50)).collectives
    assert (only.ready_ns, only.exposed_ns) == (0, 10)
    (only,) = cpu_step(("aten::mm", TRAIN, 0, 50)).collectives
    assert only.ready_ns is None


def test_only_outermost_operators_are_counted_by_name() -> None:
    found = cpu_step(("aten::linear", TRAIN, 0, 10), ("aten::addmm", TRAIN, 2, 8), ("aten::linear", TRAIN, 10, 15))
    assert found.kernels == {"linear": (15, 2)}
    assert cpu_step(*BACKWARD).kernels == {"add_": (10, 1), "copy_": (25, 1)}


# Breakdown over several ranks: means, waiting and late ranks


def ranks(*recordings: Recording, tmp_path: Path) -> list[RankBreakdown]:
    files = [recording.chrome(tmp_path / f"rank{i}.json") for i, recording in enumerate(recordings)]
    return [break_down(timeline) for file in files for timeline in timelines(file)]


@pytest.fixture
def late(tmp_path: Path) -> Breakdown:
    """Rank 1 joins every second all-reduce, of 200 us, 150 us late."""
    return over_ranks(ranks(ddp_steps(0), ddp_steps(1, late_us=150), tmp_path=tmp_path))


def waiting_of(breakdown: Breakdown) -> Waiting:
    waiting = breakdown.waiting()
    assert waiting is not None
    return waiting


def test_the_parts_are_means_over_the_ranks_and_add_up_to_the_step(late: Breakdown) -> None:
    assert late.step_ms == 1.0
    assert astuple(parts_ms(late)) == pytest.approx((0.75, 0.115, 0.05, 0.085))
    assert parts_ms(late).total == pytest.approx(late.step_ms, rel=1e-9)
    profile = profile_of(late)
    assert profile.communication_ms == pytest.approx((0.400 + 0.250) / 2)
    assert profile.overlap_percent == pytest.approx(100 * (1 - 0.115 / 0.325))
    assert profile.communication_to_computation == pytest.approx(0.325 / parts_ms(late).compute)
    info = json_of(profile_of(late))
    assert list(info["breakdown_ms"]) == ["compute", "exposed_communication", "exposed_copy", "idle"]
    assert (info["all_reduces"], info["dtod_copies"]) == (2, 1)


def test_time_beyond_the_shortest_duration_of_a_collective_is_waiting_for_the_late_rank(late: Breakdown) -> None:
    waiting = waiting_of(late)
    assert waiting.waiting_ms == pytest.approx(0.150 / 2)  # on one rank of two
    assert waiting.communication_ms == pytest.approx((0.400 + 0.250) / 2)
    assert waiting.percent == pytest.approx(100 * 150 / 650)
    assert (waiting.collectives, waiting.late) == (4, {1: 2})


@pytest.mark.parametrize(("measured_ms", "slowed"), [(98, False), (90, True)])
def test_a_rank_is_slowed_if_each_step_is_over_5_percent_longer_than_a_measured_one(
    measured_ms: float, slowed: bool
) -> None:
    assert POWERSGD.ranks[0].is_slowed(measured_ms) is slowed


def test_of_steps_that_a_profiler_slowed_the_one_nearest_to_a_measured_step_counts() -> None:
    """On real GPUs the first and the last of five steps were longer by 20 and 40 ms."""
    nearest = POWERSGD.nearest_to(98)
    assert (round(POWERSGD.step_ms, 1), round(nearest.step_ms, 1)) == (110.9, 100.6)
    assert parts_ms(nearest).total == pytest.approx(nearest.step_ms, rel=1e-9)
    assert [len(rank.steps) for rank in nearest.ranks] == [1, 1]


def test_a_rank_is_late_if_it_is_in_most_recorded_steps_not_in_the_one_that_counts() -> None:
    waiting, of_nearest = waiting_of(POWERSGD), waiting_of(POWERSGD.nearest_to(98))
    assert (of_nearest.collectives, of_nearest.late) == (15, waiting.late)
    assert of_nearest.waiting_ms < waiting.waiting_ms / 4


@pytest.mark.parametrize(
    ("first_us", "second_us", "late"),
    [
        (1000, 850, {1: 1}),
        (850, 1000, {0: 1}),
        (1000, 950, {}),  # 5 % of it
        (100, 85, {}),  # 15 us
    ],
)
def test_a_rank_is_late_only_if_another_waits_both_long_enough_and_for_a_large_share(
    first_us: float, second_us: float, late: dict[int, int], tmp_path: Path
) -> None:
    both = []
    for rank, duration_us in enumerate((first_us, second_us)):
        both.append(Recording(rank=rank))
        both[rank].range("Batch 0", 0, 50)
        both[rank].run(NCCL, 2000 - duration_us, 2000, at=10, stream=NCCL_STREAM)
    assert waiting_of(over_ranks(ranks(*both, tmp_path=tmp_path))).late == late


def test_no_rank_waits_if_all_arrive_together(tmp_path: Path) -> None:
    waiting = waiting_of(over_ranks(ranks(ddp_steps(0), ddp_steps(1), tmp_path=tmp_path)))
    assert (waiting.percent, waiting.late) == (0, {})


def test_ranks_come_from_the_recording_not_from_the_order_of_files(tmp_path: Path) -> None:
    together = over_ranks(ranks(ddp_steps(1, late_us=150), ddp_steps(0), tmp_path=tmp_path))
    assert [rank.rank for rank in together.ranks] == [0, 1]
    assert waiting_of(together).late == {1: 2}


def test_ranks_with_different_collectives_or_numbers_of_steps_are_not_matched(tmp_path: Path) -> None:
    different = ddp_steps(1)
    broadcast = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    different.run(broadcast, 2000, 2010, at=410, stream=NCCL_STREAM)
    for other in (different, ddp_steps(1, steps=4)):
        assert over_ranks(ranks(ddp_steps(0), other, tmp_path=tmp_path)).waiting() is None


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"rank0\.json and rank1\.json both come from rank 0: give the ranks of one run"):
        over_ranks(ranks(ddp_steps(0), ddp_steps(0), tmp_path=tmp_path))


def test_the_processes_of_one_export_are_its_ranks(tmp_path: Path, late: Breakdown) -> None:
    file = sqlite(tmp_path / "all.sqlite", [ddp_steps(1, late_us=150), ddp_steps(0)], text_ids=True)
    together = over_ranks([break_down(timeline) for timeline in timelines(file)])
    ours, theirs = (replace(profile_of(one), late_ranks=None) for one in (together, late))
    assert ours == theirs
    assert together.waiting() == late.waiting()


def launching(every_us: float, tmp_path: Path) -> Breakdown:
    """Kernels of 5 us every ``every_us``, each launched 8 us before its start."""
    recording = Recording()
    for step in range(2):
        begin = 30 * every_us * step
        recording.range(f"Batch {step}", begin, begin + 25 * every_us)
        for kernel in range(20):
            at = begin + kernel * every_us
            recording.run("elementwise", at + 8, at + 13, at=at)
    return over_ranks(ranks(recording, tmp_path=tmp_path))


def test_a_host_that_launches_too_slowly_makes_a_step_launch_bound(tmp_path: Path, late: Breakdown) -> None:
    assert profile_of(launching(20, tmp_path)).launch_bound is True
    profile = profile_of(late)
    assert profile.launch_bound is False
    assert profile.host_ahead_ms is not None
    assert profile.host_ahead_ms > late.step_ms
