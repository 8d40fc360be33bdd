"""Interval arithmetic, compared with sets of single nanoseconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fixtures.trace.timeline import Intervals, clip, intersect, length, subtract, union

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
def test_a_union_has_every_time_point_of_its_parts_once(spans: Intervals) -> None:
    assert moments(union(spans)) == moments(spans)
    assert is_normal(union(spans))


@given(SETS, SETS)
def test_an_intersection_has_the_time_points_in_both(a: Intervals, b: Intervals) -> None:
    assert moments(intersect(a, b)) == moments(a) & moments(b)
    assert is_normal(intersect(a, b))


@given(SETS, SETS)
def test_a_difference_has_the_time_points_in_the_first_alone(a: Intervals, b: Intervals) -> None:
    assert moments(subtract(a, b)) == moments(a) - moments(b)
    assert is_normal(subtract(a, b))


@given(SETS, st.integers(0, 30), st.integers(0, 30))
def test_clipping_keeps_the_part_between_the_bounds(a: Intervals, start: int, end: int) -> None:
    assert moments(clip(a, start, end)) == moments(a) & set(range(start, end))


@given(SETS)
def test_the_length_is_the_number_of_nanoseconds(a: Intervals) -> None:
    assert length(a) == len(moments(a))
