"""Breakdown over several ranks: means, waiting and late ranks."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest

from fixtures.matrix.recorded import json_of
from fixtures.trace.breakdown import Breakdown, RankBreakdown, Waiting, break_down, over_ranks
from fixtures.trace.profile import parts_ms, profile_of
from fixtures.trace.timeline import BadTrace
from tests.h200 import POWERSGD
from tests.recordings import NCCL, NCCL_STREAM, Recording, ddp_steps, sqlite, timelines


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
