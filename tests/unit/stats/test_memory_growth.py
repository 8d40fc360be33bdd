"""Growth of peak memory: beyond 2 % and 64 MB, and only of launches that agree."""

import pytest

from fixtures.stats.kept_by_steps import memory_growth, peaks_agree

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
