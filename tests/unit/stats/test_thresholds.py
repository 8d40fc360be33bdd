"""The thresholds are in one file and one table."""

import re

from tests.threshold_table import PAGE, SOURCE, table, with_table


def test_the_page_has_every_threshold_with_its_value() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), "write it anew: python -m tests.threshold_table"
    assert table().count("\n| `") == len(re.findall(r"^[A-Z0-9_]+ = ", SOURCE.read_text(), re.M))
