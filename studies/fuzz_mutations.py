"""Mutations of JSON, of bytes and of SQLite files, drawn from a random generator: the same seed makes the same file."""

import copy
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

# A few hundred levels, which Python still reads, and more than it reads.
_DEEP, _TOO_DEEP = 300, 100_000
ESCAPE = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\r"


class Raw(str):
    """JSON text that is written as it is: what json.dumps would not write."""


# Any: JSON.
def _value(random: Random) -> Any:
    """A value that is unlikely to be right."""
    return random.choice(
        (
            *(None, True, False, 0, -1, 1, 7, 10**9, 2**31, 2**53 + 1, 2**63, -(2**63), 10**25, 10**400, -0.0),
            *(0.1, -0.5, 1e-9, 1e-300, 5e-324, 1e20, 1e29, -1e29, 1e308, float("nan"), float("inf"), -float("inf")),
            *(
                "",
                " ",
                "0",
                "nan",
                "2gpu",
                "0gpu",
                "ddp",
                "no_comm",
                "native",
                "shm",
                "a\nb",
                ESCAPE,
                "../x",
                "/",
                "\0",
            ),
            *("x" * 5000, "ä€😀", "2026-11-23", "2026-11-23T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "\ud800"),
            *([], {}, [None], [0], [[]], [{}], {"": None}, {"a": {"b": []}}, ["a", 1, None], [1e29] * 3, [0.1] * 400),
            *([1e-12, 1e10], [1e10], [1e-12] * 3, {ESCAPE: ESCAPE}, {"2": "x"}, {"0": 1e29}),
            *(Raw('{"a": 1, "a": 2}'), Raw("9" * 5000), Raw("1e999"), Raw('"\\udfff"'), Raw("[" * _DEEP + "]" * _DEEP)),
        )
    )


# Any: JSON.
def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value in a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


# Any: JSON.
def mutated_json(base: Any, random: Random) -> str:
    """The text of a JSON value in which one to four values are changed: set, removed, renamed, swapped, repeated."""
    value = copy.deepcopy(base)
    for _ in range(random.choice((1, 2, 2, 2, 3, 4))):
        found = list(places(value))
        if not found:
            break
        container, key = random.choice(found)
        other, other_key = random.choice(found)
        what = random.random()
        if what < 0.6:
            container[key] = copy.deepcopy(_value(random))
        elif what < 0.7:
            del container[key]
        elif what < 0.8:
            with suppress(KeyError, IndexError):
                container[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(container[key])
        elif what < 0.87 and isinstance(container, dict):
            container[random.choice((ESCAPE, "", "x" * 3000, str(other_key)))] = container.pop(key)
        elif what < 0.94 and isinstance(container[key], int | float) and not isinstance(container[key], bool):
            container[key] *= random.choice((-1, 0, 1e-9, 1e9, 1e15, 1e29, 0.5))
        elif isinstance(container, list):
            container += copy.deepcopy(container[key : key + 1]) * random.choice((1, 50))
        else:
            container[f"{key}2"] = copy.deepcopy(container[key])
    return _dumped(value)


# Any: JSON.
def _dumped(value: Any) -> str:
    raws: list[str] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, Raw):
            raws.append(str(value))
            return f"@raw{len(raws) - 1}@"
        if isinstance(value, dict):
            return {key: replaced(one) for key, one in value.items()}
        return [replaced(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(replaced(value)) if _short(value) else json.dumps(None)
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text


# Any: JSON.
def _short(value: Any) -> bool:
    """False for a whole number of more digits than Python writes."""
    return not any(isinstance(c[k], int) and abs(c[k]) > 10**4000 for c, k in places(value))


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Bytes cut off, flipped, removed, repeated, or with something inserted."""
    what = random.randrange(7)
    at = random.randrange(len(data) + 1)
    if what == 0:
        return data[:at]
    if what == 1:
        changed = bytearray(data)
        for _ in range(random.choice((1, 2, 8, 64))):
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        return bytes(changed)
    if what == 2:
        return data[:at] + data[at + random.choice((1, 2, 100)) :]
    if what == 3:
        return data[:at] + data[max(0, at - random.choice((1, 20, 1000))) :]
    if what == 4:
        levels = random.choice((_DEEP, _TOO_DEEP))
        return data[:at] + random.choice((b"[", b'{"a":')) * levels + data[at:]
    if what == 5:
        odd = (b"\0", b"\xff", b"\x1b[2J", b"NaN", b"-", b"1e999", b'"\\ud800"', b",", b'"', b"}", b"\n")
        return data[:at] + random.choice(odd) * random.choice((1, 3)) + data[at:]
    return bytes(random.randrange(256) for _ in range(random.choice((0, 1, 16, 500))))


def mutated_sqlite(path: Path, random: Random) -> None:
    """Change an SQLite file in place: cells, columns, tables, its schema, or its bytes."""
    if random.random() < 0.15:
        path.write_bytes(mutated_bytes(path.read_bytes(), random))
        return
    with closing(sqlite3.connect(path)) as database:
        for _ in range(random.choice((1, 2, 2, 3))):
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if not tables:
                break
            with suppress(sqlite3.Error, OverflowError):
                random.choices(_CHANGES, _WEIGHTS)[0](database, random.choice(tables), random)
        database.commit()


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def _unconstrained(database: sqlite3.Connection, table: str) -> None:
    """Make the table anew without its constraints, so that it takes NULL and any type."""
    database.execute(f'CREATE TABLE "copy" AS SELECT * FROM "{table}"')
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'ALTER TABLE "copy" RENAME TO "{table}"')


def _change_cells(database: sqlite3.Connection, table: str, random: Random) -> None:
    _unconstrained(database, table)
    column = random.choice(_columns(database, table))
    numbers = (0, -1, 1, 2**62, 2**63 - 1, -(2**63), 10**18, 1.5, float("inf"), -1e308, 1e-300)
    value = random.choice((*numbers, None, "", "text", ESCAPE, "9" * 400, "x" * 100_000, b"", b"blob\xff", b"\0" * 9))
    rows = random.choice(("1", "rowid = 1", "rowid % 7 = 3", "rowid = (SELECT max(rowid) FROM (SELECT rowid FROM t))"))
    rows = rows.replace("FROM t)", f'FROM "{table}")')
    database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {rows}', (value,))


def _shift_cells(database: sqlite3.Connection, table: str, random: Random) -> None:
    _unconstrained(database, table)
    column, other = random.choice(_columns(database, table)), random.choice(_columns(database, table))
    new = random.choice((f'"{other}"', f'"{column}" * -1', f'"{column}" + 1000000', f'"{column}" * 1000003', "rowid"))
    database.execute(f'UPDATE "{table}" SET "{column}" = {new} WHERE rowid % {random.choice((1, 2, 5))} = 0')


def _drop_column(database: sqlite3.Connection, table: str, random: Random) -> None:
    _unconstrained(database, table)
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{random.choice(_columns(database, table))}"')


def _rename(database: sqlite3.Connection, table: str, random: Random) -> None:
    column = random.choice(_columns(database, table))
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{random.choice(("x", "end", "start"))}"')


def _drop_table(database: sqlite3.Connection, table: str, random: Random) -> None:
    database.execute(f'DROP TABLE "{table}"')


def _swap_tables(database: sqlite3.Connection, table: str, random: Random) -> None:
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    other = random.choice(tables)
    for old, new in ((table, "x"), (other, table), ("x", other)):
        database.execute(f'ALTER TABLE "{old}" RENAME TO "{new}"')


def _repeat_rows(database: sqlite3.Connection, table: str, random: Random) -> None:
    _unconstrained(database, table)
    for _ in range(random.choice((1, 4))):
        database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')


def _no_rows(database: sqlite3.Connection, table: str, random: Random) -> None:
    database.execute(f'DELETE FROM "{table}" WHERE rowid % {random.choice((1, 2, 3))} = 0')


def _view(database: sqlite3.Connection, table: str, random: Random) -> None:
    """A view that never ends, a generated column or a virtual table in place of the table."""
    columns = _columns(database, table)
    database.execute(f'DROP TABLE "{table}"')
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
    listed = ", ".join(f'n AS "{column}"' for column in columns)
    generated = ", ".join(f'"{column}" AS (hex(zeroblob(100000)))' for column in columns)
    database.execute(
        random.choice(
            (
                f'CREATE VIEW "{table}" AS {endless} SELECT {listed} FROM r',
                f'CREATE TABLE "{table}" (a, {generated})',
                f'CREATE VIRTUAL TABLE "{table}" USING fts5({", ".join(columns)})',
            )
        )
    )


_CHANGES: tuple[Callable[[sqlite3.Connection, str, Random], None], ...] = (
    *(_change_cells, _shift_cells, _drop_column, _rename, _drop_table, _swap_tables, _repeat_rows, _no_rows, _view),
)
_WEIGHTS = (10, 5, 2, 2, 1, 1, 1, 1, 1)
