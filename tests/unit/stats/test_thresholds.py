"""The thresholds are in one file and one table."""

import re

from tests.threshold_table import PAGE, ROOT, SOURCE, table, with_table


def test_the_page_has_every_threshold_with_its_value() -> None:
    """``python -m tests.threshold_table`` writes it."""
    assert PAGE.read_text() == with_table(PAGE.read_text())
    assert table().count("\n| `") == len(re.findall(r"^[A-Z_]+ = ", SOURCE.read_text(), re.M))


def test_every_threshold_is_used() -> None:
    code = "\n".join(file.read_text() for file in (ROOT / "fixtures").rglob("*.py") if file != SOURCE)
    names = re.findall(r"^([A-Z_]+) = ", SOURCE.read_text(), re.M)
    assert [name for name in names if len(re.findall(rf"\b{name}\b", code)) < 2] == []
