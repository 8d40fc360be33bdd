"""Interval arithmetic against counting moments one by one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fixtures.explain.intervals import Intervals, clip, intersect, length, subtract, union

SPAN = st.tuples(st.integers(0, 30), st.integers(0, 30))
ANY = st.lists(SPAN, max_size=8)
SETS = ANY.map(union)


def moments(intervals: Intervals) -> set[int]:
    return {moment for start, end in intervals for moment in range(start, end)}


def is_normal(intervals: Intervals) -> bool:
    """Sorted, disjoint, not touching, none empty."""
    borders = [border for interval in intervals for border in interval]
    return all(a < b for a, b in pairwise(borders))


@given(ANY)
def test_a_union_has_every_moment_of_its_parts_once(spans: Intervals) -> None:
    assert moments(union(spans)) == moments(spans)
    assert is_normal(union(spans))


@given(SETS, SETS)
def test_an_intersection_has_the_moments_that_are_in_both(a: Intervals, b: Intervals) -> None:
    assert moments(intersect(a, b)) == moments(a) & moments(b)
    assert is_normal(intersect(a, b))


@given(SETS, SETS)
def test_a_difference_has_the_moments_of_the_first_alone(a: Intervals, b: Intervals) -> None:
    assert moments(subtract(a, b)) == moments(a) - moments(b)
    assert is_normal(subtract(a, b))


@given(SETS, st.integers(0, 30), st.integers(0, 30))
def test_clipping_keeps_what_lies_between(a: Intervals, start: int, end: int) -> None:
    assert moments(clip(a, start, end)) == moments(a) & set(range(start, end))


@given(SETS)
def test_the_length_is_the_number_of_moments(a: Intervals) -> None:
    assert length(a) == len(moments(a))
