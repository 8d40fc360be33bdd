"""When what each step keeps has a line in the report, when it fails a test, and when peak memory grows."""

import pytest

from fixtures.stats.kept_by_steps import (
    DESCRIPTORS,
    GPU_MEMORY,
    OBJECTS,
    THREADS,
    Kept,
    memory_growth,
    more_is_kept,
    peaks_agree,
)

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


# Growth of peak memory: beyond 2 % and 64 MB, and only of launches that agree


GB, MB = 10**9, 10**6


@pytest.mark.parametrize(
    ("now", "recorded"),
    [
        (9 * GB, 9 * GB),
        (8 * GB, 9 * GB),
        (9 * GB + 170 * MB, 9 * GB),  # not over 2 %
        (160 * MB, 100 * MB),  # not over 64 MB
        (2 * GB + 64 * MB, 2 * GB),
        (10 * GB + 200 * MB, 10 * GB),
    ],
)
def test_growth_within_either_threshold_is_none(now: int, recorded: int) -> None:
    assert memory_growth(now, recorded, "0001_a.json") is None


def test_growth_beyond_both_thresholds_has_both_numbers() -> None:
    assert memory_growth(9_099_000_000, 8_849_000_000, "0003_night.json") == (
        "peak memory of a step grew by 2.8 %: 9,099 MB now, 8,849 MB in 0003_night.json, with the same torch "
        "(threshold 2 % and 64 MB)"
    )
    assert memory_growth(166 * MB, 100 * MB, "0001_a.json") is not None


@pytest.mark.parametrize(
    ("peaks", "agree"),
    [((), False), ((GB,), False), ((GB, GB), True), ((GB, 1004 * MB), True), ((GB, GB, 1006 * MB), False)],
)
def test_peaks_of_two_launches_or_more_agree(peaks: tuple[int, ...], agree: bool) -> None:
    assert peaks_agree(peaks) is agree
