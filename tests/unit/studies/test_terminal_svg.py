"""The picture of the table: every column is found, numbered and explained."""

from xml.etree import ElementTree

import pytest

from fixtures.report.config_columns import COLUMNS
from studies.terminal_svg import MEANINGS, columns, svg
from tests.builders import lines
from tests.unit.report.test_table import quiet

TABLE = "\n".join(lines(quiet("ddp", 8), quiet("bf16", 9), quiet("no_comm", 10)))


def test_the_picture_has_every_column_with_its_number_and_meaning() -> None:
    shown = [text.text or "" for text in ElementTree.fromstring(svg(TABLE)).iter("{http://www.w3.org/2000/svg}text")]
    _, found = columns(TABLE.splitlines())
    assert len(found) > 7
    for number, (title, meaning) in enumerate(((one.title, MEANINGS[one.title]) for one in found), start=1):
        assert shown.count(str(number)) >= 2, title  # over the column, and beside its meaning
        assert title in shown
        assert meaning.split()[0] in " ".join(shown)


def test_every_column_of_the_table_has_a_meaning() -> None:
    shown = [column for column in COLUMNS if column.shown == "always" or column.title == "samples/s"]
    titles = [" ".join(column.header.split()) for column in shown]
    assert titles == list(MEANINGS)


def test_a_column_without_a_meaning_is_named() -> None:
    with pytest.raises(ValueError, match="no meaning for the column 'ms/jump': add it to MEANINGS"):
        columns(TABLE.replace("ms/step", "ms/jump").splitlines())
