"""When what each step keeps has a line in the report, and when it fails a test."""

import pytest

from fixtures.stats.kept_by_steps import DESCRIPTORS, GPU_MEMORY, OBJECTS, THREADS, Kept, more_is_kept

SPECS = Kept(of=OBJECTS, number=486, bytes=60_000, type="DTensorSpec", of_type=96, collection_s=1e-5)


def test_objects_have_a_line_from_a_gigabyte_a_day_on() -> None:
    assert SPECS.line(0.5) is not None  # 10 GB a day
    assert SPECS.line(10.0) is None  # 0.5 GB a day


def test_few_bytes_have_a_line_if_their_collection_takes_time() -> None:
    small = Kept(of=OBJECTS, number=100, bytes=10, type="list", of_type=100, collection_s=1e-4)
    assert small.line(0.04) is not None  # five visits are 1.25 % of a step
    assert small.line(0.1) is None


def test_gpu_memory_counts_like_objects() -> None:
    assert Kept(of=GPU_MEMORY, number=4096).line(0.1) is not None
    assert Kept(of=GPU_MEMORY, number=512).line(0.1) is None


@pytest.mark.parametrize("of", [THREADS, DESCRIPTORS])
def test_a_thread_or_a_descriptor_a_step_always_has_a_line(of: str) -> None:
    assert Kept(of=of, number=1).line(10.0) is not None


def test_twice_of_the_record_fails_if_two_launches_keep_it() -> None:
    recorded = [Kept(of=OBJECTS, number=243)]
    assert more_is_kept([[SPECS], [SPECS]], recorded) is not None
    assert more_is_kept([[SPECS], []], recorded) is None
    assert more_is_kept([[SPECS]], recorded) is None
    assert more_is_kept([[SPECS], [SPECS]], [Kept(of=OBJECTS, number=244)]) is None


def test_anything_is_more_than_nothing() -> None:
    assert more_is_kept([[Kept(of=THREADS, number=1)]] * 2, []) is not None
    assert more_is_kept([[], []], []) is None
