"""Links: how a rate and a delay are written, and the name of a link in the instance's."""

import pytest

from fixtures.extras.slow_link.link import BadLink, Link, parse_delay, parse_rate


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
    assert Link(bits_per_s=parse_rate(rate), delay_s=parse_delay(delay) if delay else 0.0).name == name


@pytest.mark.parametrize(
    "rate", ["fast", "1", "gbit", "-1gbit", "1e3mbit", "1gbyte", "1 gbit", "nangbit", "\u0661gbit"]
)
def test_what_is_no_rate_is_refused(rate: str) -> None:
    with pytest.raises(BadLink, match="a rate is a number with kbit, mbit or gbit"):
        parse_rate(rate)


@pytest.mark.parametrize("rate", ["0gbit", "0.5mbit", "999kbit"])
def test_a_link_on_which_a_run_would_not_end_is_refused(rate: str) -> None:
    with pytest.raises(BadLink, match=f"{rate}: the slowest link is 1mbit"):
        parse_rate(rate)


@pytest.mark.parametrize("delay", ["0us", "2s", "1001ms"])
def test_a_delay_is_over_0_and_at_most_a_second(delay: str) -> None:
    with pytest.raises(BadLink, match="a delay is over 0 and at most 1s"):
        parse_delay(delay)
