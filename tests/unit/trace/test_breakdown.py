"""Breakdown of one rank, on hand-made recordings with known parts."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.trace.breakdown import RankBreakdown, StepBreakdown, break_down
from fixtures.trace.timeline import HostInterval, Kind, Operation, Timeline
from tests.recordings import AUTOGRAD, GEMM, NCCL, OTHER, Recording, ddp_steps, sqlite, timelines

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


def test_work_of_a_marked_thread_is_not_in_the_phase_of_another_thread(file: Path) -> None:
    recording = ddp_steps()
    recording.range("get batch", 500, 700, thread=OTHER)
    recording.run("Memcpy HtoD (Pinned -> Device)", 2300, 2350, at=530, thread=OTHER, stream=9)
    assert breakdown(recording, file).steps[0].copies == {"HtoD": 1, "DtoD": 1}


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


def test_only_waits_of_threads_that_launch_are_counted(file: Path) -> None:
    recording = ddp_steps()
    recording.call("cudaStreamSynchronize", 450, 480)
    recording.call("cudaDeviceSynchronize", 500, 510, thread=AUTOGRAD)
    recording.call("cudaEventSynchronize", 500, 600, thread=OTHER)
    step = breakdown(recording, file).steps[0]
    assert (step.waits, step.waits_ns) == (2, 40 * US)


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
