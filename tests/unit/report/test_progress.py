"""The time left, from the estimates of tests and from the tests that have ended."""

import pytest

from fixtures.report.progress import TimeLeft
from fixtures.session.time_needed import MEASURED, Expected


def time_left(measured_s: float, other_s: float) -> TimeLeft:
    """Ten measured tests, the first with a start of ranks, and a hundred others of two kinds."""
    expected = {f"measured {i}": Expected(seconds=measured_s, kind=MEASURED, starts=i == 0) for i in range(10)}
    others = {f"other {i}": Expected(seconds=other_s, kind="ab"[i % 2]) for i in range(100)}
    starting = {"starting": Expected(seconds=0.2, kind="a", starts=True)}
    return TimeLeft(expected | others | (starting if other_s else {}), start_s=9)


def test_before_a_test_has_ended_the_estimates_count() -> None:
    assert time_left(8, 0.2).seconds() == pytest.approx(118.2)
    assert time_left(8, 0.2).words() == "1 to 3 min left"


def test_a_test_that_starts_ranks_says_nothing_about_others() -> None:
    left = time_left(0, 0.2)
    left.finish("measured 0", 0, start_s=9)
    left.finish("starting", 20, start_s=9)
    assert left.seconds() == pytest.approx(20)


def test_measured_tests_take_as_many_times_their_estimates_as_most_of_them_did() -> None:
    left = time_left(8, 0)
    for number, took_s in enumerate((100, 16, 0.01, 16, 15)):  # a first launch, and one that another test made
        left.finish(f"measured {number}", took_s, start_s=30)
    assert left.seconds() == pytest.approx(5 * 16)
    assert left.words() == "1 to 2 min left"


def test_one_test_says_half_on_a_logarithmic_scale() -> None:
    left = time_left(8, 0)
    left.finish("measured 0", 32, start_s=30)
    assert left.seconds() == pytest.approx(9 * 8 * 2)


def test_a_short_test_says_little_about_its_kind_and_less_about_others() -> None:
    left = time_left(0, 0.2)
    left.finish("measured 0", 0, start_s=9)
    left.finish("starting", 0.2, start_s=9)
    left.finish("other 0", 1, start_s=9)
    assert 99 * 0.2 < left.seconds() < 99 * 0.2 * 1.3
    for number in range(2, 100, 2):
        left.finish(f"other {number}", 1, start_s=9)
    assert 50 * 0.2 * 2 < left.seconds() < 50 * 0.2 * 4  # all that is left is of the other kind
    for number in range(1, 100, 2):
        left.finish(f"other {number}", 1, start_s=9)
    assert left.seconds() == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "under 10 s left"), (14, "5 to 20 s left"), (60, "40 to 85 s left"), (600, "7 to 15 min left")],
)
def test_the_ends_of_the_range_differ_twofold(seconds: float, words: str) -> None:
    assert TimeLeft({"a": Expected(seconds=seconds, kind="a")}, start_s=9).words() == words
