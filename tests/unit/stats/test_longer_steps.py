"""Steps that take longer than all others, and steps that get longer."""

import pytest

from fixtures.stats.step_account import LongerSteps, grows_percent, usual


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
        [*[1.0] * 16, *[3.0] * 14],  # of two kinds, both usual, as with batches of uneven length
    ],
)
def test_other_steps_are_of_one_kind(step_s: list[float]) -> None:
    assert LongerSteps.among(step_s) is None


def test_each_eighth_step_is_longer() -> None:
    step_s = [9.0 if number % 8 == 3 else 1.0 for number in range(32)]
    found = LongerSteps.among(step_s)
    assert found is not None
    assert (found.period, found.places) == (8, (3, 11, 19, 27))
    assert usual(step_s) == [number for number in range(32) if number % 8 != 3]
    unsteady = LongerSteps.among([9.0 if number in (3, 11, 20) else 1.0 for number in range(32)])
    assert unsteady is not None
    assert unsteady.period is None


def test_one_step_that_is_longer_alone_is_not_named_and_does_not_count() -> None:
    assert usual([1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0]) == [0, 1, 2, 4, 5, 6, 7]


def test_where_many_steps_are_longer_all_of_them_count() -> None:
    assert usual([1.0, 1.0, 3.0] * 10) == [*range(30)]


def test_steps_that_get_longer_do_so_all_the_time() -> None:
    assert grows_percent([1 + number / 100 for number in range(64)]) == pytest.approx(56 / 1.035, rel=0.01)
    assert grows_percent([1 + number / 10_000 for number in range(64)]) is None
    assert grows_percent([1.0] * 32 + [1.5] * 32) is None
    assert grows_percent([1 + number / 100 for number in range(31)]) is None
