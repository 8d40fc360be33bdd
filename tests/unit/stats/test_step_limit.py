"""Which share of a step limits it."""

import pytest

from fixtures.stats.step_limit import gain_without_percent, largest


@pytest.mark.parametrize(
    ("percents", "by"),
    [
        ({"input": 61, "transfer": 20}, "input"),
        ({"input": 10, "host": 34, "transfer": 20}, "host"),
        ({"input": 9, "host": 9, "transfer": 19, "late_rank": 19}, "compute"),
        ({"input": 11, "transfer": 46}, "transfer"),
        ({"host": 11, "late_rank": 21}, "late_rank"),
        ({}, "compute"),
    ],
)
def test_the_largest_share_over_its_threshold_limits_the_step(percents: dict[str, float], by: str) -> None:
    assert largest(percents) == by


def test_without_half_of_its_step_a_training_is_twice_as_fast() -> None:
    assert (gain_without_percent(50), gain_without_percent(0), gain_without_percent(100)) == (100, 0, None)
