"""Which share of a step limits it."""

import pytest

from fixtures.stats.step_limit import LongerSteps, gain_without_percent, largest


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


@pytest.mark.parametrize(
    ("step_s", "number", "percent", "over_percent"),
    [
        ([*[1.0] * 14, 3.0, 5.0], 2, 8 / 0.22, 37.5),
        ([*[1.0] * 9, *[1.3] * 4, 2.0, 2.0, 2.0], 3, 6 / 0.202, 26.25),  # apart from the longest of the others
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0], 2, 40, 25),
    ],
)
def test_steps_that_do_other_work_are_longer_than_all_others(
    step_s: list[float], number: int, percent: float, over_percent: float
) -> None:
    found = LongerSteps.among(step_s)
    assert found is not None
    assert (found.number, found.measured) == (number, len(step_s))
    assert (found.percent, found.over_percent) == pytest.approx((percent, over_percent))
    assert found.times == pytest.approx(sum(sorted(step_s)[-number:]) / number)


@pytest.mark.parametrize(
    "step_s",
    [
        [*[1.0] * 15, 9.0],  # one alone may be other work
        [*[1.0] * 5, 3.0, 5.0],  # too few
        [*[1.0] * 14, 1.3, 1.3],  # not much longer
        [*[1.0] * 10, *[1.3] * 4, 1.7, 1.7],  # not apart
        [*[1.0] * 58, 1.5, 1.5],  # 2 % on average
        [*[1.0] * 8, *[3.0] * 8],  # of two kinds, none is the usual one
    ],
)
def test_other_steps_are_of_one_kind(step_s: list[float]) -> None:
    assert LongerSteps.among(step_s) is None
