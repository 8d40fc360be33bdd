"""The step at sizes that were not run: formulas, the replay of buckets, and its exposed part."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.extras.predict.prediction import (
    Bucket,
    Cluster,
    Link,
    Overlap,
    Parts,
    Uncertainty,
    all_reduce_s,
    bucket_layout,
    contention_of,
    evenly_ready,
    expected_largest,
    fit_rest,
    predict,
    stretch,
)

CLUSTER = Cluster(
    gpus_per_node=8,
    start_s=1e-5,
    inside=Link(latency_s=2e-6, bytes_per_s=300e9),
    network=Link(latency_s=5e-6, bytes_per_s=25e9),
)
PARTS = Parts(
    ranks=8,
    compute_s=0.08,
    compute_error=0.001,
    backward_s=0.05,
    sigma=0.001,
    buckets=tuple(Bucket(bytes=100e6, ready_s=0.005 * (n + 1)) for n in range(10)),
    contention=0.2,
)
CERTAIN = Uncertainty(transfer=0, doubling=0, shared=0, contention=0, rest=0)
SOME = Uncertainty(transfer=0.1, doubling=0.05, shared=1.5, contention=0.5, rest=0.3)


@pytest.mark.parametrize(
    ("gpus", "algorithm", "expected_s"),
    [
        (1, "ring", 0.0),
        (8, "ring", 1e-5 + 14 * 2e-6 + 1.75 * 1e9 / 300e9),
        (8, "tree", 1e-5 + 14 * 2e-6 + 1.75 * 1e9 / 300e9),
        (64, "ring", 1e-5 + 2 * 56 * 2e-6 + 2 * 8 * 5e-6 + 2 * 63 / 64 * 1e9 / 200e9),
        (64, "tree", 1e-5 + 14 * 2e-6 + 6 * 5e-6 + 2 * 1e9 / 200e9),
        (64, "hierarchical", 1e-5 + 14 * 2e-6 + 14 * 5e-6 + 1.75 * 1e9 / 300e9 + 1.75 * 1e9 / 200e9),
    ],
)
def test_an_all_reduce_takes_what_its_formula_says(gpus: int, algorithm: str, expected_s: float) -> None:
    assert all_reduce_s(1e9, gpus, CLUSTER, algorithm) == pytest.approx(expected_s)  # type: ignore[arg-type]


def test_several_nodes_need_a_network_and_several_ranks_have_a_latest() -> None:
    with pytest.raises(ValueError, match="16 GPUs are more than one node of 8"):
        all_reduce_s(1e9, 16, replace(CLUSTER, network=None), "ring")
    # The expected largest of ranks: Harter, Biometrika 48, 1961.
    assert expected_largest(2) == pytest.approx(0.5642, rel=0.05)
    assert expected_largest(8) == pytest.approx(1.4236, rel=0.01)


def test_the_terms_add_up_to_the_step_which_on_the_measured_ranks_is_the_measured_one() -> None:
    found = predict(PARTS, 64, CLUSTER, "ring", SOME)
    assert sum(term.seconds for term in found.terms) == pytest.approx(found.step_s)
    assert found.low_s < found.step_s < found.high_s
    assert found.weakest.error_s == max(term.error_s for term in found.terms)
    assert predict(fit_rest(PARTS, 0.0834, CLUSTER), 8, CLUSTER, "ring", CERTAIN).step_s == pytest.approx(0.0834)


def test_the_interval_widens_with_the_distance() -> None:
    widths = [
        (found := predict(PARTS, gpus, CLUSTER, "ring", SOME)).high_s - found.low_s for gpus in (16, 64, 256, 1024)
    ]
    assert widths == sorted(widths)


def test_gpus_that_share_a_link_may_have_less_each() -> None:
    parts, cluster = replace(PARTS, ranks=2), replace(CLUSTER, inside=Link(latency_s=0, bytes_per_s=20e9))
    own = predict(parts, 8, cluster, "ring", SOME)
    shared = predict(parts, 8, replace(cluster, shared=True), "ring", SOME)
    assert (shared.step_s, shared.low_s) == (own.step_s, own.low_s)
    assert shared.high_s > own.high_s + 0.1


def test_what_is_weak_changes_with_the_network() -> None:
    quick = replace(CLUSTER, network=Link(latency_s=5e-6, bytes_per_s=50e9))
    slow = replace(CLUSTER, network=Link(latency_s=5e-6, bytes_per_s=1e9))
    assert predict(PARTS, 64, quick, "tree", SOME).weakest.name == "contention"
    assert predict(PARTS, 64, slow, "tree", SOME).weakest.name == "exposed"


# The exposed part of a step's communication, and its estimate from measured configs


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
