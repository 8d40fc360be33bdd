"""Names of ranges: as a user writes them, and as errors propose them."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.trace.breakdown import break_down
from fixtures.trace.timeline import DEFAULT_MARKS, BadTrace, HostInterval, Marks, Timeline
from tests.recordings import GEMM, Recording, timelines


def with_ranges(*names: str) -> Timeline:
    """On the CPU, one range after the other."""
    ranges = (HostInterval(name=name, thread=1, start_ns=100 * n, end_ns=100 * n + 90) for n, name in enumerate(names))
    return Timeline(source="it", rank=None, operations=(), ranges=tuple(ranges))


def steps(timeline: Timeline, step: str) -> list[str]:
    return [one.name for one in break_down(timeline, Marks(steps=(step,))).steps]


def proposals(timeline: Timeline, marks: Marks = DEFAULT_MARKS) -> list[str]:
    with pytest.raises(BadTrace) as raised:
        break_down(timeline, marks)
    listed = re.split(r"there are |it was launched in ", str(raised.value))[1].rpartition(": name the ranges")[0]
    return [name for name in shlex.split(listed.replace("',", "'")) if name not in ("and", "others")]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("step[DECODE bs=*]", ["step[DECODE bs=8]", "step[DECODE bs=16]"]),
        ("[pl][profile]run_training_batch", ["[pl][profile]run_training_batch"] * 2),
        ("[pl][profile]*", ["[pl][profile]run_training_batch"] * 2),
        ("is it?", ["is it?"] * 2),
        ("train*", ["train 1", "train last"]),
    ],
)
def test_a_pattern_is_literal_but_for_its_stars(pattern: str, names: list[str]) -> None:
    """The first step only gives the start of the second."""
    assert steps(with_ranges("loss", *names, "other"), pattern) == names[1:]


def test_phases_and_the_feed_are_literal_too(tmp_path: Path) -> None:
    recording = Recording()
    recording.range("Batch 0", 0, 90)
    recording.range("[pl]next", 1, 20)
    recording.run(GEMM, 100, 200, at=5)
    (timeline,) = timelines(recording.chrome(tmp_path / "rank0.json"))
    (step,) = break_down(timeline, replace(DEFAULT_MARKS, phases=("[pl]next",), feed="[pl]*")).steps
    assert step.phase_ns == {"[pl]next": 100_000}


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=90),
        min_size=1,
        max_size=30,
        unique=True,
    )
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_each_proposal_is_accepted_as_it_is_printed(names: list[str]) -> None:
    timeline = with_ranges(*(f"my {name}" for name in names))
    listed = proposals(timeline)
    assert 0 < len(listed) <= 20 + 1  # the number of the others
    for proposal in listed[:20]:
        assert steps(timeline, proposal)


def test_at_most_twenty_names_are_listed_the_longest_ranges_first() -> None:
    ranges = [HostInterval(name=chr(97 + n), thread=1, start_ns=0, end_ns=n + 1) for n in range(25)]
    assert proposals(replace(with_ranges(), ranges=tuple(ranges))) == [*"yxwvutsrqponmlkjihgf", "5"]


def test_without_ranges_the_next_move_is_to_mark_the_steps() -> None:
    with pytest.raises(BadTrace, match=r"nor any other range: call prof\.step\(\) .+ and record the host too"):
        break_down(with_ranges())


def launching(*ranges: tuple[str, float, float]) -> Recording:
    """These ranges, and a kernel launched at 50."""
    recording = Recording()
    for name, start, end in ranges:
        recording.range(name, start, end)
    recording.run(GEMM, 100, 200, at=50)
    return recording


def test_ranges_without_work_are_refused_with_those_that_have_some(tmp_path: Path) -> None:
    (timeline,) = timelines(launching(("Batch 0", 0, 10), ("[run] 7", 40, 60)).chrome(tmp_path / "rank0.json"))
    assert proposals(timeline) == ["[run] *"]
    assert break_down(timeline, Marks(steps=("[run] *",))).steps


def test_work_outside_of_every_range_has_the_next_move(tmp_path: Path) -> None:
    (timeline,) = timelines(launching(("Batch 0", 0, 10)).chrome(tmp_path / "rank0.json"))
    with pytest.raises(
        BadTrace, match=r"\(kernels and copies: 1\), nor most of it in another one: call prof\.step\(\)"
    ):
        break_down(timeline)


def test_a_range_that_launched_a_small_part_is_not_proposed_for_a_step(tmp_path: Path) -> None:
    recording = Recording()
    for step in range(3):
        recording.range("load", 1000 * step, 1000 * step + 100)
        recording.range("update", 1000 * step + 800, 1000 * step + 850)
        for launched in (200, 400, 600, 810):
            recording.run(GEMM, 1000 * step + launched + 10, 1000 * step + launched + 40, at=1000 * step + launched)
    (timeline,) = timelines(recording.chrome(tmp_path / "rank0.json"))
    with pytest.raises(BadTrace, match=r"nor most of it in another one: call prof\.step"):
        break_down(timeline, Marks(steps=("load",)))


def test_the_only_step_of_a_recording_says_how_long_after_its_range_it_begins(tmp_path: Path) -> None:
    recording = Recording()
    recording.range("Batch 0", 0, 3000)
    recording.run(GEMM, 2810, 2830, at=2800)
    (timeline,) = timelines(recording.chrome(tmp_path / "rank0.json"))
    assert break_down(timeline).after_range_ns == 2_810_000
    recording.range("Batch 1", 3100, 3200)
    recording.run(GEMM, 3150, 3180, at=3140)
    (timeline,) = timelines(recording.chrome(tmp_path / "rank0.json"))
    assert break_down(timeline).after_range_ns is None
