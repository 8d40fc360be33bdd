"""Links: how a rate and a delay are written, the name of a link in the instance's, and the words of a measured one."""

from collections.abc import Callable

import pytest

from fixtures.extras.slow_link.options import BadLink, Link, parse_delay, parse_link, parse_rate
from fixtures.extras.slow_link.starter import MeasuredLink


@pytest.mark.parametrize(
    ("rate", "delay", "name"),
    [
        ("1gbit", None, "1gbit"),
        ("1000mbit", None, "1gbit"),
        ("1000000kbit", None, "1gbit"),
        ("2.5gbit", None, "2.5gbit"),
        ("200Mbit", None, "200mbit"),
        ("25gbit", "50us", "25gbit_50us"),
        ("25gbit", "0.05ms", "25gbit_50us"),
        ("1mbit", "1s", "1mbit_1s"),
    ],
)
def test_equal_links_have_one_name(rate: str, delay: str | None, name: str) -> None:
    assert parse_link(",".join(filter(None, (rate, delay)))).name == name


@pytest.mark.parametrize(
    ("parse", "texts", "says"),
    [
        (
            parse_rate,
            ["fast", "1", "gbit", "-1gbit", "1e3mbit", "1gbyte", "1 gbit", "nangbit", "\u0661gbit"],
            "a rate is a number with kbit, mbit or gbit",
        ),
        (parse_rate, ["0gbit", "0.5mbit", "999kbit"], ": the slowest link is 1mbit"),  # a run would not end
        (parse_delay, ["0us", "2s", "1001ms"], "a delay is over 0 and at most 1s"),
    ],
)
def test_what_is_no_rate_or_delay_is_refused(parse: Callable[[str], float], texts: list[str], says: str) -> None:
    for text in texts:
        with pytest.raises(BadLink, match=says):
            parse(text)


@pytest.mark.parametrize(
    ("data_bits_per_s", "words"), [(95.5612e6, "95.56 Mbit/s"), (16671e6, "16670 Mbit/s"), (1e12, "1000000 Mbit/s")]
)
def test_a_measured_rate_has_four_digits_and_no_exponent(data_bits_per_s: float, words: str) -> None:
    measured = MeasuredLink(link=Link(bits_per_s=10**9), data_bits_per_s=data_bits_per_s, round_trip_s=1e-5)
    assert f"measured {words} of data" in measured.words
