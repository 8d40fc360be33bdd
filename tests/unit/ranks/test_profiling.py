"""A rank on a GPU reads its own profile: the device's activities, and the host's time at its marks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch._C._autograd import DeviceType, _KinetoEvent
from torch.profiler import ProfilerActivity, profile

from fixtures.ranks.context import RankContext
from fixtures.ranks.profiling import Profiling, events_of, timeline_of
from fixtures.ranks.window import AllRanks
from fixtures.trace.breakdown import StepBreakdown, break_down
from fixtures.trace.timeline import BadTrace, HostInterval
from tests.builders import as_rank
from tests.recordings import COPIED_BYTES, GEMM, NCCL, NCCL_STREAM, Recording, ddp_steps, read_chrome

US = 1000


def activity(
    name: str, resource: int, correlation: int, start_us: float, end_us: float, *, on: int | None
) -> _KinetoEvent:
    """An event as torch.profiler gives it. on: the GPU; None for a call of the host."""
    fields = {
        "name": name,
        "device_type": DeviceType.CPU if on is None else DeviceType.CUDA,
        "device_index": -1 if on is None else on,
        "device_resource_id": resource,
        "correlation_id": correlation,
        "is_user_annotation": False,
        "start_ns": round(US * start_us),
        "duration_ns": round(US * (end_us - start_us)),
        "metadata_json": f'"stream": 7, "bytes": {COPIED_BYTES}',
    }
    event: Any = SimpleNamespace(**{name: partial(lambda value: value, value) for name, value in fields.items()})
    return cast(_KinetoEvent, event)


def of_device(recording: Recording) -> list[_KinetoEvent]:
    """The events of a recording without the host's activities."""
    return [
        *(activity(name, thread, number, start, end, on=None) for name, thread, start, end, number in recording.calls),
        *(
            activity(name, stream, number, start, end, on=recording.rank)
            for _, name, stream, start, end, number in recording.work
        ),
    ]


def marks_of(recording: Recording) -> list[HostInterval]:
    return [
        HostInterval(name=name, thread="marks", start_ns=round(US * start), end_ns=round(US * end))
        for name, _, start, end in recording.ranges
    ]


def by_marks(recording: Recording) -> tuple[StepBreakdown, ...]:
    return break_down(timeline_of(of_device(recording), recording.rank, marks_of(recording), on_gpu=True)).steps


def by_ranges(recording: Recording, folder: Path) -> tuple[StepBreakdown, ...]:
    return break_down(read_chrome(recording.chrome(folder / "trace.json"))).steps


def graph_steps() -> Recording:
    """Steps that copy a batch and replay one graph, after which the host waits."""
    recording = Recording()
    for step in range(3):
        host, device = 50 * step, 1000 + 200 * step
        recording.range(f"Batch {step}", host, host + 40)
        recording.range("get batch", host + 1, host + 5)
        recording.run("Memcpy HtoD (Pinned -> Device)", device, device + 10, at=host + 2)
        recording.range("replay", host + 6, host + 39)
        graph = recording.call("cudaGraphLaunch", host + 10)
        recording.run(GEMM, device + 10, device + 100, at=0, by=graph)
        recording.run(NCCL, device + 60, device + 160, at=0, by=graph, stream=NCCL_STREAM)
        recording.run("Memset (Device)", device + 160, device + 170, at=0, by=graph)
        recording.call("cudaDeviceSynchronize", host + 12, host + 38)
    return recording


@pytest.mark.parametrize("recording", [ddp_steps(), ddp_steps(1, late_us=150), graph_steps()])
def test_marks_give_the_same_breakdown_as_ranges_in_a_trace(recording: Recording, tmp_path: Path) -> None:
    assert by_marks(recording) == by_ranges(recording, tmp_path)


def test_a_captured_step_has_two_phases() -> None:
    for step in by_marks(graph_steps()):
        assert step.phase_ns == {"get batch": 10 * US, "replay": 160 * US}
        assert (step.waits, step.waits_ns) == (1, 26 * US)


def test_work_on_another_gpu_takes_no_time_of_its_own(tmp_path: Path) -> None:
    recording = ddp_steps()
    events = of_device(recording)
    other = activity(GEMM, 7, 10**6, 0, 10**6, on=1)
    timeline = timeline_of([other, *events], 0, marks_of(recording), on_gpu=True)
    assert break_down(timeline).steps == by_ranges(recording, tmp_path)


def test_a_gpu_of_which_nothing_was_recorded_is_an_error() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(2).add_(1)
    events = events_of(profiler)
    assert events
    with pytest.raises(BadTrace, match=r"recorded no GPU work on rank 1; .*run with --explain none under nsys"):
        timeline_of(events, 1, [], on_gpu=True)


def recorded(ctx: RankContext, train: Callable[[Profiling], object]) -> Profiling:
    """Four steps, each with this in it."""
    alone = AllRanks(device=ctx.device, wait=lambda: None, slowest=lambda values: values)
    recording = Profiling(ctx, ctx.device)
    for wanted in recording.steps(3, alone):
        for number in range(wanted.number if wanted.marked else 0):
            with recording.mark(f"Batch {number}", ""):
                train(recording)
    return recording


def test_on_the_cpu_the_events_in_memory_give_the_same_breakdown_as_the_trace_in_a_file(tmp_path: Path) -> None:
    layer = torch.nn.Linear(64, 64)

    def train(recording: Profiling) -> None:
        with recording.mark("forward", ""):
            loss = layer(torch.ones(8, 64)).sum()
        with recording.mark("backward", ""):
            loss.backward()

    recording = recorded(as_rank(tmp_path), train)
    recording.export(tmp_path / "trace.json")
    in_memory = recording.breakdown().steps
    assert in_memory == break_down(read_chrome(tmp_path / "trace.json")).steps
    assert in_memory[0].kernels.keys() >= {"linear", "sum"}


def test_the_hosts_time_at_a_mark_is_on_the_axis_of_torchs_traces(tmp_path: Path) -> None:
    recording = recorded(as_rank(tmp_path), lambda _: torch.ones(1000).add_(1))
    recording.export(tmp_path / "trace.json")
    timeline = read_chrome(tmp_path / "trace.json")
    assert timeline.zero_ns is not None
    ranges = {r.name: r for r in timeline.ranges}
    marks = recording.ranges
    within = [replace(ranges[m.name], start_ns=ranges[m.name].start_ns + timeline.zero_ns) for m in marks]
    # A busy machine may interrupt the host between a mark and its range, but not at half of them.
    assert abs(median(r.start_ns - m.start_ns for r, m in zip(within, marks, strict=True))) < 100 * US
