"""Properties of the stopping rule."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fixtures.stats.stopping_rule import (
    BLOCK,
    block_sizes,
    interval_rank,
    is_precise_enough,
    max_steps_in_time,
    round_means_s,
)
from tests.builders import SETTINGS

# Powers of two, so that scaling and inverting are exact; never 0.
times = st.lists(st.integers(-4, 4).map(lambda exponent: 2.0**exponent), min_size=1, max_size=40)
precisions = st.sampled_from([0, 0.25, 30, 99, 101, 299, 301, 1000])


def test_the_interval_covers_the_median_in_at_least_ninety_percent() -> None:
    outside = {n: 2 * stats.binom.cdf(interval_rank(n) - 1, n, 0.5) for n in range(5, 401)}
    assert {n: share for n, share in outside.items() if not 0.01 < share < 0.1} == {}


def test_steps_are_precise_enough_if_half_of_the_interval_is_within_the_precision() -> None:
    step_s = [1.0, 7.0, 2.0, 3.0, 6.0, 4.0, 8.0, 5.0]  # between the second and the seventh
    half_percent = 100 * (math.sqrt(7 / 2) - 1)
    assert is_precise_enough(step_s, half_percent + 1e-9)
    assert not is_precise_enough(step_s, half_percent - 1e-9)


def test_one_outlier_does_not_matter_but_two_modes_do() -> None:
    assert is_precise_enough([1.0] * 7 + [50.0], 0.25)
    assert not is_precise_enough([1.0] * 6 + [1.1] * 2, 0.25)


@given(times=times, precision=precisions, exponent=st.integers(-20, 20))
def test_scaling_or_inverting_the_times_changes_nothing(times: list[float], precision: float, exponent: int) -> None:
    assert is_precise_enough(times, precision) == is_precise_enough([t * 2.0**exponent for t in times], precision)
    assert is_precise_enough(times, precision) == is_precise_enough([1 / t for t in times], precision)


@given(times=st.permutations([1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007]))
def test_the_order_of_the_steps_does_not_matter(times: list[float]) -> None:
    assert is_precise_enough(times, 0.26)
    assert not is_precise_enough(times, 0.24)


@given(times=st.lists(st.floats(1e-6, 1e3), max_size=4))
def test_four_steps_are_never_precise_enough(times: list[float]) -> None:
    assert not is_precise_enough(times, 1e6)


@given(most=st.integers(1, 1000))
def test_blocks_fill_the_window(most: int) -> None:
    sizes = block_sizes(most)
    assert sum(sizes) == most
    assert set(sizes[:-1]) <= {BLOCK}
    assert 0 < sizes[-1] <= BLOCK


@pytest.mark.parametrize(
    ("most", "step_s", "fit"),
    [(20, 0.08, 20), (20, 0.09, 16), (20, 0.099, 16), (20, 0.101, 8), (20, 5, 8), (40, 0.16, 16), (6, 5, 6)],
)
def test_a_window_lasts_as_long_as_its_steps_of_80_ms_or_one_block(most: int, step_s: float, fit: int) -> None:
    assert max_steps_in_time(most, step_s) == fit


def test_the_precision_is_a_quarter_of_the_smallest_slowdown_and_at_most_that_of_one_percent() -> None:
    settings = [replace(SETTINGS, min_slowdown_percent=slowdown) for slowdown in (0.2, 1, 30)]
    assert [one.precision_percent for one in settings] == [0.05, 0.25, 0.25]


def test_the_mean_of_a_round_includes_the_wait_for_slow_workers() -> None:
    """Three batches come at once, the fourth after a wait: the median step would be a quarter of the mean."""
    steps = [1.0, 1.0, 1.0, 13.0] * 5
    assert round_means_s(steps, 4) == [4.0] * 5
    assert round_means_s(steps, 1) == steps


def test_blocks_are_whole_rounds() -> None:
    assert [block_sizes(*asked) for asked in ((24, 8), (21, 7), (20, 1))] == [[8, 8, 8], [14, 7], [8, 8, 4]]
