"""Latency and bandwidth fitted to the times of messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.stats.latency_bandwidth import fit_latency_bandwidth
from tests.builders import known

SIZES = (8, 1024, 65536, 2**20, 2**28)


@given(latency_s=st.floats(1e-6, 1e-3), gb_per_s=st.floats(1, 1000))
def test_the_model_is_found_again(latency_s: float, gb_per_s: float) -> None:
    fitted = known(fit_latency_bandwidth({size: latency_s + size / gb_per_s / 1e9 for size in SIZES}))
    assert fitted.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert fitted.bytes_per_s == pytest.approx(1e9 * gb_per_s, rel=1e-6)
    assert fitted.misfit_percent == pytest.approx(0, abs=1e-6)
    assert fitted.sizes == 5


def test_a_small_message_weighs_as_much_as_a_large_one() -> None:
    """Without weights the largest, 10 % too slow, would decide the latency of the others."""
    times_s = {size: 20e-6 + size / 100e9 for size in SIZES}
    times_s[SIZES[-1]] *= 1.1
    assert known(fit_latency_bandwidth(times_s)).latency_s == pytest.approx(20e-6, rel=0.02)


def test_two_sizes_say_nothing_and_how_far_the_model_is_off_is_known() -> None:
    assert fit_latency_bandwidth({8: 1e-5, 2**20: 1e-4}) is None
    assert 10 < known(fit_latency_bandwidth({8: 1e-5, 1024: 1e-5, 2048: 2e-5})).misfit_percent < 50


def test_neither_part_of_the_time_is_negative() -> None:
    falling = known(fit_latency_bandwidth({8: 3e-5, 1024: 2e-5, 65536: 1e-5}))
    assert (falling.latency_s > 0, falling.bytes_per_s) == (True, None)
    steep = known(fit_latency_bandwidth({2**10: 1e-6, 2**20: 2e-3, 2**21: 5e-3}))
    assert steep.latency_s >= 0
    assert steep.bytes_per_s is not None
