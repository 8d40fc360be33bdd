"""The exposed part of a step's communication, and its estimate from measured configs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.extras.predict.overlap import Bucket, Overlap, bucket_layout, contention_of, evenly_ready, stretch

MB = 2**20


def overlap(*ready_s: float, backward_s: float = 0.05) -> Overlap:
    """Buckets of 1 byte."""
    buckets = tuple(Bucket(bytes=1, ready_s=ready) for ready in ready_s)
    return Overlap(compute_s=0.1, backward_s=backward_s, buckets=buckets)


def test_a_bucket_is_closed_when_it_reaches_its_cap() -> None:
    assert bucket_layout([4 * MB, 4 * MB, 4 * MB, 1 * MB], 8) == [8 * MB, 5 * MB]
    assert bucket_layout([4 * MB, 64 * MB, 4 * MB], 8) == [68 * MB, 4 * MB]  # never smaller than its largest
    assert bucket_layout([2 * MB, 20 * MB, 20 * MB, 2 * MB], None) == [2 * MB, 40 * MB, 2 * MB]  # 1 MB, then 25


@given(sizes=st.lists(st.integers(1, 10**8)), cap=st.one_of(st.none(), st.integers(1, 400)))
def test_buckets_hold_every_byte_and_all_but_the_last_are_full(sizes: list[int], cap: int | None) -> None:
    buckets = bucket_layout(sizes, cap)
    assert sum(buckets) == sum(sizes)
    assert all(bucket >= (cap or 1) * MB for bucket in buckets[:-1])


def test_buckets_wait_for_their_gradients_and_for_each_other() -> None:
    three = overlap(0.01, 0.02, 0.05)
    assert three.replayed(lambda size: 0.005) == pytest.approx((0.015, 0.005))  # only the last shows
    assert three.replayed(lambda size: 0.05) == pytest.approx((0.15, 0.11))  # each delays the next
    assert three.replayed(lambda size: 0.0) == (0.0, 0.0)


@given(ready=st.lists(st.floats(0, 1), min_size=1), backward_s=st.floats(0, 1), each_s=st.floats(0, 1))
def test_exposed_time_is_at_most_all_communication(ready: list[float], backward_s: float, each_s: float) -> None:
    total, exposed = overlap(*sorted(ready), backward_s=backward_s).replayed(lambda size: each_s)
    assert 0 <= exposed <= total == pytest.approx(each_s * len(ready))


def test_gradients_become_ready_evenly_by_bytes() -> None:
    assert [bucket.ready_s for bucket in evenly_ready([10, 30], 0.04)] == pytest.approx([0.01, 0.04])
    assert evenly_ready([], 0.04) == ()


def test_the_fastest_config_of_one_bucket_says_how_much_longer_an_all_reduce_takes_in_a_step() -> None:
    one = overlap(0.05)
    assert stretch([(one, 0.13), (one, 0.15), (overlap(0.01, 0.05), 0.101)], lambda size: 0.02) == pytest.approx(1.5)
    assert stretch([(replace(one, rest_s=0.01), 0.13)], lambda size: 0.02) == pytest.approx(1)
    assert stretch([(one, 0.09)], lambda size: 0.02) == stretch([], lambda size: 0.02) == 1


def test_what_configs_of_several_buckets_take_longer_than_their_exposed_part_is_contention() -> None:
    two = overlap(0.02, 0.05)  # of two all-reduces of 10 ms, the first is hidden
    found = contention_of([(two, 0.113), (two, 0.113), (two, 0.19), (overlap(0.05), 0.2)], lambda size: 0.01)
    assert found == pytest.approx(0.3)
    assert replace(two, contention=found).step_s(lambda size: 0.01) == pytest.approx(0.113)
    assert contention_of([(two, 0.09)], lambda size: 0.01) == 0
