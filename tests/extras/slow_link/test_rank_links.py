"""The words for a measured link."""

import pytest

from fixtures.extras.slow_link.link import Link
from fixtures.extras.slow_link.rank_links import MeasuredLink


@pytest.mark.parametrize(
    ("data_bits_per_s", "words"), [(95.5612e6, "95.56 Mbit/s"), (16671e6, "16670 Mbit/s"), (1e12, "1000000 Mbit/s")]
)
def test_a_measured_rate_has_four_digits_and_no_exponent(data_bits_per_s: float, words: str) -> None:
    measured = MeasuredLink(link=Link(bits_per_s=10**9), data_bits_per_s=data_bits_per_s, round_trip_s=1e-5)
    assert f"measured {words} of data" in measured.words
