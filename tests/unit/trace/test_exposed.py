"""Cost of communication by three methods: when they disagree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.trace.cost import Cost
from fixtures.trace.exposed import Exposed
from tests.h200 import broken_down, on_ranks, step

times_ms = st.floats(-10, 1000)

# vit_l_32 on H200s: the table of eight in docs/studies/breakdown.md, and the newest records of two.
HEALTHY = {
    "ddp_default": (90.00, 0.61, 5.58, 3.92),
    "static_graph_bucket_view": (91.99, 6.16, 7.60, 6.02),
    "bf16": (92.17, 3.25, 7.37, 5.77),
    "ddp_default on two": (88.33, 0.50, 4.40, 2.64),
}


def cost(now_ms: float, limit_ms: float) -> Cost:
    """Cost from two steps of these lengths, split into compute and exposed communication."""
    limit = broken_down(limit_ms, 0, 0, 0)
    now = broken_down(min(now_ms, limit_ms), max(0, now_ms - limit_ms), 0, 0)
    return Cost.of(now, limit, without="no_comm")


@pytest.mark.parametrize("ways", HEALTHY.values(), ids=HEALTHY)
@pytest.mark.parametrize("noise_ms", [None, 0.0, 0.5])
def test_methods_with_different_parts_do_not_disagree(
    ways: tuple[float, float, float, float], noise_ms: float | None
) -> None:
    step_ms, profiler_ms, no_sync_ms, no_comm_ms = ways
    exposed = Exposed(
        step_ms=step_ms, profiler_ms=profiler_ms, no_sync_ms=no_sync_ms, no_comm_ms=no_comm_ms, noise_ms=noise_ms
    )
    assert exposed.disagreement() is None


def test_more_transfer_than_the_backward_pass_grows_by_is_a_disagreement() -> None:
    exposed = Exposed(step_ms=94, profiler_ms=10, no_sync_ms=7, noise_ms=0.4)
    assert exposed.disagreement() == (
        "10.00 ms of exposed transfer, but backward is only 7.00 ms longer than under no_sync(): more than launches "
        "differ (1.88 ms); profile again"
    )


def test_different_profiled_and_measured_differences_are_a_disagreement() -> None:
    exposed = Exposed(step_ms=94, profiler_ms=9, no_sync_ms=9, no_comm_ms=4, noise_ms=2.5, cost=cost(95, 86))
    assert exposed.disagreement() == (
        "the step is 9.00 ms longer than no_comm's when profiled and 4.00 ms longer when measured: more than launches "
        "differ (2.50 ms); profile again"
    )


@pytest.mark.parametrize(
    "exposed",
    [
        Exposed(step_ms=94, profiler_ms=20, no_sync_ms=17.1, noise_ms=0),  # 14.5 %
        Exposed(step_ms=94, profiler_ms=2, no_sync_ms=0.2, noise_ms=0),  # 90 %, but 1.9 % of the step
        Exposed(step_ms=94, profiler_ms=10, no_sync_ms=6, noise_ms=5),  # the launches differ by more
        Exposed(step_ms=94, profiler_ms=10, no_sync_ms=1),  # one launch: its noise is not known
        Exposed(step_ms=94, no_sync_ms=20, no_comm_ms=3, noise_ms=0),
        Exposed(step_ms=94, profiler_ms=20, noise_ms=0),
        Exposed(step_ms=94, profiler_ms=0, no_sync_ms=0, noise_ms=0),
    ],
)
def test_close_noisy_or_single_values_are_not_a_disagreement(exposed: Exposed) -> None:
    assert exposed.disagreement() is None


def test_the_wait_for_a_late_rank_is_not_a_disagreement() -> None:
    """Without communication rank 1 takes 20 ms longer; with it, rank 0 waits for 20 ms."""
    late, waiting = step(93, 0, 0, 0), step(73, 20, 0, 0)
    limit = on_ranks((step(73, 0, 0, 0),), (late,))
    found = Cost.of(on_ranks((waiting,), (late,)), limit, without="no_comm")
    assert (found.step_ms, found.slowest_ms) == pytest.approx((10, 0))
    exposed = Exposed(step_ms=93, profiler_ms=10, no_sync_ms=10, no_comm_ms=0.1, noise_ms=0.1, cost=found)
    assert exposed.disagreement() is None


@given(ways=st.tuples(times_ms, times_ms), step_ms=st.floats(1, 1000), noise_ms=st.floats(0, 100))
def test_a_reported_disagreement_of_the_transfer_exceeds_all_tolerances(
    ways: tuple[float, float], step_ms: float, noise_ms: float
) -> None:
    exposed = Exposed(step_ms=step_ms, profiler_ms=ways[0], no_sync_ms=ways[1], noise_ms=noise_ms)
    bound_ms = max(0.15 * max(map(abs, ways)), 0.02 * step_ms, noise_ms)
    assert (exposed.disagreement() is not None) == (ways[0] - ways[1] > bound_ms)
