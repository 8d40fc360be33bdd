"""The picture of the table: every column is found, numbered and explained."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fixtures.report.config_columns import COLUMNS
from studies.terminal_svg import MEANINGS, columns, main, svg
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


def test_a_title_between_dashes_stays_on_one_line() -> None:
    picture = svg(f"{TABLE}\n{' in short '.center(200, '-')}\n")
    shown = [text.text or "" for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    (title,) = (text for text in shown if "in short" in text)
    assert title.startswith("-")
    assert title.endswith("-")


def test_every_column_of_the_table_has_a_meaning() -> None:
    shown = ("always", "where filled", "if it fits")
    titles = [" ".join(column.header.split()) for column in COLUMNS if column.shown in shown]
    assert titles == list(MEANINGS)


def test_a_column_without_a_meaning_is_named() -> None:
    with pytest.raises(ValueError, match="no meaning for the column 'ms/jump': add it to MEANINGS"):
        columns(TABLE.replace("ms/step", "ms/jump").splitlines())


def test_a_column_that_the_output_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="the output has no column 'gain vs ddp %'"):
        columns(["config    ms/step", "--------  -------"])


def test_an_output_without_a_table_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.txt").write_text("no tests ran\n")
    assert main([str(tmp_path / "run.txt"), str(tmp_path / "run.svg")]) == 1
    assert capsys.readouterr().err.endswith("run.txt: the output has no table: no line of dashes\n")
    assert not (tmp_path / "run.svg").exists()
