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


SMALL = Kept(of=OBJECTS, number=100, bytes=10, type="list", of_type=100, collection_s=1e-4)


@pytest.mark.parametrize(
    ("kept", "step_s", "has_a_line"),
    [
        (SPECS, 0.5, True),  # 10 GB a day
        (SPECS, 10.0, False),  # 0.5 GB a day
        (SMALL, 0.04, True),  # five visits of a collection are 1.25 % of a step
        (SMALL, 0.1, False),
        (Kept(of=GPU_MEMORY, number=4096), 0.1, True),
        (Kept(of=GPU_MEMORY, number=512), 0.1, False),
        (Kept(of=THREADS, number=1), 10.0, True),
        (Kept(of=DESCRIPTORS, number=1), 10.0, True),
    ],
)
def test_what_grows_by_a_gigabyte_a_day_or_takes_time_has_a_line(kept: Kept, step_s: float, has_a_line: bool) -> None:
    assert (kept.line(step_s) is not None) == has_a_line


@pytest.mark.parametrize(
    ("launches", "recorded", "fails"),
    [
        ([[SPECS], [SPECS]], [Kept(of=OBJECTS, number=243)], True),
        ([[SPECS], []], [Kept(of=OBJECTS, number=243)], False),
        ([[SPECS]], [Kept(of=OBJECTS, number=243)], False),
        ([[SPECS], [SPECS]], [Kept(of=OBJECTS, number=244)], False),
        ([[Kept(of=THREADS, number=1)]] * 2, [], True),
        ([[], []], [], False),
    ],
)
def test_twice_of_the_record_fails_if_two_launches_keep_it(
    launches: list[list[Kept]], recorded: list[Kept], fails: bool
) -> None:
    assert (more_is_kept(launches, recorded) is not None) == fails


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
