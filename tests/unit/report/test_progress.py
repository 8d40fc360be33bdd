"""The time left, estimated from tests that have ended."""

import pytest

from fixtures.report.progress import TimeLeft

BUCKETS, SCALING = ("perf/test_buckets.py", True), ("perf/test_scaling.py", True)
GRADIENTS, WIRE = ("perf/test_gradients.py", False), ("perf/test_gradients_wire.py", False)


def test_a_test_takes_as_long_as_those_of_its_file_without_the_one_that_started_ranks() -> None:
    left = TimeLeft([BUCKETS] * 10 + [GRADIENTS] * 1000)
    for took_s in (60.0, 8.0, 10.0):
        left.finish(BUCKETS, took_s)
    for took_s in (20.0, 0.1, 0.3):
        left.finish(GRADIENTS, took_s)
    assert left.seconds() == pytest.approx(7 * 9 + 997 * 0.2)


def test_a_file_that_is_not_begun_takes_as_long_as_those_that_are_measured_like_it_or_are_not() -> None:
    left = TimeLeft([BUCKETS] * 3 + [SCALING] * 5 + [GRADIENTS] * 3 + [WIRE] * 30)
    for kind, took_s in ((BUCKETS, 8), (GRADIENTS, 0.5)):
        for _ in range(3):
            left.finish(kind, took_s)
    assert left.seconds() == pytest.approx(5 * 8 + 30 * 0.5)


def test_tests_of_which_none_has_ended_are_not_left_out() -> None:
    left = TimeLeft([BUCKETS] * 3 + [GRADIENTS] * 1000)
    for _ in range(3):
        left.finish(BUCKETS, 8)
    assert left.seconds() > 60


def test_nothing_left_takes_no_time() -> None:
    left = TimeLeft([BUCKETS])
    left.finish(BUCKETS, 8)
    assert left.seconds() == 0
