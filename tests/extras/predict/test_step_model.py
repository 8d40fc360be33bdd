"""The step at sizes that were not run: the formulas of all-reduces, the replay of buckets, terms and intervals."""

from dataclasses import replace

import pytest

from fixtures.extras.predict.overlap import Bucket
from fixtures.extras.predict.step_model import (
    Cluster,
    Link,
    Parts,
    Uncertainty,
    all_reduce_s,
    expected_largest,
    fit_rest,
    predict,
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
    fitted = fit_rest(PARTS, 0.0834, CLUSTER)
    assert predict(fitted, 8, CLUSTER, "ring", CERTAIN).step_s == pytest.approx(0.0834)


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
