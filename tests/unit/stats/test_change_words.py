"""Changes of a time in words: a direction instead of a sign."""

import pytest

from fixtures.stats.verdict import change_in_words, in_column, interval_in_words, verdict_in_words


@pytest.mark.parametrize(
    ("percent", "words"), [(25, "25.0 % slower"), (-1.24, "1.2 % faster"), (-0.04, "0.0 %"), (None, "")]
)
def test_a_change_has_a_direction_and_no_sign(percent: float | None, words: str) -> None:
    assert change_in_words(percent) == words


def test_an_interval_has_a_direction_at_each_end_that_needs_one() -> None:
    assert interval_in_words(1.2, 3.4) == "1.20 to 3.40 % slower"
    assert interval_in_words(-3.4, -1.2) == "1.20 to 3.40 % faster"
    assert interval_in_words(-0.5, 3.4) == "0.50 % faster to 3.40 % slower"


def test_a_column_of_percentages_repeats_no_sign() -> None:
    assert in_column("1.20 % slower") == "1.20 slower"
    assert in_column("1.20 to 3.40 % slower") == "1.20 to 3.40"
    assert in_column("0.50 % faster to 3.40 % slower") == "0.50 faster to 3.40 slower"


def test_a_verdict_says_its_direction_once() -> None:
    assert verdict_in_words("slower", 25) == "slower 25.0 %"
    assert verdict_in_words("ok", -1.2) == "ok, 1.2 % faster"
    assert verdict_in_words("no baseline", None) == "no baseline"
