"""SQLite files are read by plain tables and typed columns, and never written."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.trace.sqlite_file import BadDatabase, Row, open_database

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*statements: str) -> Path:
        with closing(sqlite3.connect(tmp_path / "file.sqlite")) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        return tmp_path / "file.sqlite"

    return write


def numbers(file: Path) -> list[int]:
    with open_database(file) as database:
        return [row.number("start") for row in database.rows("work", {"start": True}, order="start")]


def reason(file: Path) -> str:
    with pytest.raises(BadDatabase) as refused:
        numbers(file)
    return str(refused.value)


def test_rows_are_read_in_their_order(write: Write) -> None:
    assert numbers(write("CREATE TABLE work (start)", "INSERT INTO work VALUES (3), (1), (2)")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("'text'", "work, row 1: start is a text, not a whole number"),
        ("x'00ff'", "work, row 1: start is a blob, not a whole number"),
        ("9e999", "work, row 1: start is a number, not a whole number"),
        ("NULL", "work, row 1: start is NULL"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_row(write: Write, value: str, says: str) -> None:
    assert reason(write("CREATE TABLE work (start)", f"INSERT INTO work VALUES ({value})")) == says


def test_a_missing_column_is_named(write: Write) -> None:
    assert reason(write("CREATE TABLE work (other)")) == "work has no column start"


def test_nothing_is_written_and_no_journal_is_played_back(write: Write, tmp_path: Path) -> None:
    file = write("CREATE TABLE work (start)", "INSERT INTO work VALUES (1)")
    (tmp_path / "file.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(500))
    before = file.read_bytes()
    assert numbers(file) == [1]
    assert file.read_bytes() == before
    assert (tmp_path / "file.sqlite-journal").exists()


def test_a_text_and_a_missing_value_have_their_types() -> None:
    values: Mapping[str, object] = {"name": "a", "none": None}
    row = Row("work, row 1", values)
    assert (row.maybe_text("name"), row.maybe_text("none"), row.maybe_number("missing")) == ("a", None, None)
