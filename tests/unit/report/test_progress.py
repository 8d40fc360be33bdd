"""The time left, from the estimates of tests and from the tests that have ended."""

import pytest

from fixtures.report.progress import TimeLeft


def time_left(measured_s: float, other_s: float) -> TimeLeft:
    """Ten measured tests and a hundred others, which should take this long each."""
    needed_s = dict.fromkeys(map(str, range(10)), measured_s) | dict.fromkeys(map(str, range(10, 110)), other_s)
    return TimeLeft(needed_s, {test: int(test) < 10 for test in needed_s})


def test_before_a_test_has_ended_the_estimates_count_and_a_short_test_says_little() -> None:
    assert time_left(8, 0.2).seconds() == pytest.approx(100)
    left = time_left(8, 0.2)
    left.finish("10", 1.0)
    assert left.seconds() == pytest.approx(80 + 19.8, rel=0.02)
    for test in {*map(str, range(110))} - {"10"}:
        left.finish(test, 1)
    assert left.seconds() == 0


def test_tests_that_take_twice_as_long_double_the_rest_of_their_kind_only() -> None:
    left = time_left(1000, 0.2)
    for test in map(str, range(5)):
        left.finish(test, 2000)
    assert left.seconds() == pytest.approx(10_000 + 20, rel=0.01)
