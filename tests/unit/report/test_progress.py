"""The time left in words."""

import pytest

from fixtures.report.progress import left_in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (3, "under 10 s left"), (14, "5 to 20 s left"), (60, "40 to 85 s left"), (600, "7 to 15 min left")],
)
def test_the_ends_of_the_range_differ_twofold(seconds: float | None, words: str) -> None:
    assert left_in_words(seconds) == words
