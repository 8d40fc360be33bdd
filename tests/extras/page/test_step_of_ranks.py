"""One step of all ranks on one clock, and its trace for Perfetto."""

import gzip
import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras.page.merged_trace import merge_step
from fixtures.extras.page.step_of_ranks import StepOfRanks, step_of_ranks
from fixtures.trace.timeline import BadTrace, Timeline
from tests.recordings import NCCL, Recording, ddp_steps, read_chrome

# Any: events are JSON.
Event = dict[str, Any]


def shifted(recording: Recording, by_us: float) -> Recording:
    """The recording of a rank whose clock is so much ahead."""
    return replace(
        recording,
        calls=[(name, thread, start + by_us, end + by_us, n) for name, thread, start, end, n in recording.calls],
        work=[(kind, name, stream, a + by_us, b + by_us, n) for kind, name, stream, a, b, n in recording.work],
        ranges=[(name, thread, start + by_us, end + by_us) for name, thread, start, end in recording.ranges],
    )


def timelines(folder: Path, *recordings: Recording) -> list[Timeline]:
    return [read_chrome(one.chrome(folder / f"rank{one.rank}.json")) for one in recordings]


def ends_ms(step: StepOfRanks) -> list[list[float]]:
    """When the collectives of each rank end."""
    return [[round(span.end_ms, 6) for span in rank.spans if span.kind == "collective"] for rank in step.ranks]


@pytest.mark.parametrize(
    ("ahead_us", "aligned_by"), [(0, "their recorded clocks"), (2500, "the ends of their collectives")]
)
def test_a_clock_that_is_off_is_shifted_until_the_collectives_end_together(
    tmp_path: Path, ahead_us: int, aligned_by: str
) -> None:
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), shifted(ddp_steps(1, steps=5), ahead_us)))
    assert (step.aligned_by, [rank.shift_ns for rank in step.ranks]) == (aligned_by, [0, -1000 * ahead_us])
    assert ends_ms(step) == [[0.62, 0.9]] * 2


def test_ends_that_scatter_say_nothing_about_a_clock(tmp_path: Path) -> None:
    scattered = ddp_steps(1, steps=5)
    longer = cycle((50, -70, 90, -30, 10))
    scattered.work = [
        (kind, name, stream, start, end + (next(longer) if name == NCCL else 0), launch)
        for kind, name, stream, start, end, launch in scattered.work
    ]
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), scattered))
    assert (step.aligned_by, step.ranks[1].shift_ns) == ("their recorded clocks", 0)


def test_without_clocks_and_collectives_the_step_begins_together(tmp_path: Path) -> None:
    alone = [replace(ddp_steps(rank), work=[w for w in ddp_steps(rank).work if w[1] != NCCL]) for rank in range(2)]
    unclocked = [replace(timeline, zero_ns=None) for timeline in timelines(tmp_path, alone[0], shifted(alone[1], 70))]
    step = step_of_ranks(unclocked)
    assert (step.aligned_by, step.ranks[1].shift_ns) == ("the start of the step", -70_000)


def test_the_step_in_the_middle_is_taken_and_late_ranks_are_seen(tmp_path: Path) -> None:
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), ddp_steps(1, steps=5, late_us=100)))
    assert step.name == "Batch 3"  # of 1 to 4: the first gives only the start of the second
    starts = [[span.start_ms for span in rank.spans if span.kind == "collective"] for rank in step.ranks]
    assert [round(b - a, 6) for a, b in zip(*starts, strict=True)] == [0, 0.1]


@pytest.mark.parametrize(("gap_us", "compute"), [(0.5, [(20, 720)]), (2, [(20, 320), (322, 720)])])
def test_gaps_in_the_compute_shorter_than_a_thousandth_of_the_step_are_not_drawn(
    tmp_path: Path, gap_us: float, compute: list[tuple[int, int]]
) -> None:
    late = ddp_steps(0, steps=5)
    late.work = [
        (kind, name, stream, start + (gap_us if end - start == 400 else 0), end, launch)
        for kind, name, stream, start, end, launch in late.work
    ]
    (rank,) = step_of_ranks(timelines(tmp_path, late)).ranks
    spans = [(round(1e3 * span.start_ms), round(1e3 * span.end_ms)) for span in rank.spans if span.kind == "compute"]
    assert spans == [*compute, (950, 1000)]


def test_ranks_without_a_step_in_common_are_refused(tmp_path: Path) -> None:
    others = ddp_steps(1)
    others.ranges = [(name.replace("Batch ", "Batch 9"), thread, a, b) for name, thread, a, b in others.ranges]
    with pytest.raises(BadTrace, match=r"rank0\.json, rank1\.json have no step in common"):
        step_of_ranks(timelines(tmp_path, ddp_steps(0), others))


def test_a_merged_trace_has_one_step_of_each_rank_whose_collectives_end_together(tmp_path: Path) -> None:
    """Three ranks whose clocks are 0, 2.5 and -4 ms off."""
    files = [
        shifted(ddp_steps(rank, steps=5), by_us).chrome(tmp_path / f"rank{rank}.json.gz")
        for rank, by_us in {0: 0, 1: 2500, 2: -4000}.items()
    ]
    step, data = merge_step(files)
    merged = json.loads(gzip.decompress(data))
    events: list[Event] = merged["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {1: "rank 0", 2: "rank 1", 3: "rank 2"}
    assert {event["pid"] for event in events if event["ph"] == "X" and event["cat"] == "kernel"} == names.keys()
    ends: dict[int, list[float]] = {}
    for event in events:
        if event["name"] == NCCL:
            ends.setdefault(event["pid"], []).append(round(event["ts"] + event["dur"], 3))
    assert len(ends[1]) == 2
    assert ends[1] == ends[2] == ends[3]
    assert merged["clock_shift_us"] == {"0": 0.0, "1": -2500.0, "2": 4000.0}
    assert {event["name"] for event in events if event["name"].startswith("Batch")} == {step.name}
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(threads) == len(set(threads))
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"} <= set(threads)
