"""docs/reference/record.md, whose tables are made of ``fixtures.records.schema``.

``python -m tests.record_reference`` writes the tables anew.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fixtures.matrix.recorded import UNRECORDED, is_promised
from fixtures.records.schema import FullRecord

DOCUMENT = Path(__file__).parent.parent / "docs/reference/record.md"
_BEGIN, _END = "<!-- keys: written by python -m tests.record_reference -->", "<!-- end of keys -->"
_UNITS = {
    "_gb_per_s": "10^9 bytes/s",
    "_per_s": "1/s",
    "_bytes_per_step": "bytes a step",
    "_bytes": "bytes",
    "bytes": "bytes",
    "_percent": "%",
    "_ms": "ms",
    "_s": "s",
    "_mhz": "MHz",
    "_w": "W",
    "_c": "°C",
}
_WORDS: dict[Any, str] = {str: "text", float: "number", int: "whole number", bool: "true or false", Any: "any"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A row of a table. kind: Python's type of the value. always: the key is in every record."""

    name: str
    kind: Any
    always: bool
    meaning: str

    @property
    def unit(self) -> str:
        """From the end of its name; of numbers only."""
        return next((f", {unit}" for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")


def keys_of(part: type) -> list[Key]:
    """The keys that this class defines itself, in the order of the source."""
    (definition,) = ast.parse(inspect.getsource(part)).body
    assert isinstance(definition, ast.ClassDef)
    fields = {one.name: one for one in dataclasses.fields(part) if one.metadata != UNRECORDED}
    found = []
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        name = field.target.id
        if name not in fields:
            continue
        if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
            raise ValueError(f"{part.__name__}.{name} has no text below it")
        kind, always = fields[name].type, is_promised(fields[name])
        found.append(Key(name=name, kind=kind, always=always, meaning=str(text.value.value)))
    return found


def parts() -> list[type]:
    """Every object of a record, each before those in it, the whole file first."""
    found: list[type] = []

    def add(part: type) -> None:
        if part in found or part is object:
            return
        found.append(part)
        for base in part.__bases__:
            add(base)
        for key in keys_of(part):
            for inner in parts_in(key.kind):
                add(inner)

    add(FullRecord)
    return found


def parts_in(kind: Any) -> Iterator[type]:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
    for argument in get_args(kind):
        yield from parts_in(argument)


def in_words(kind: Any) -> str:
    """``list of numbers``, with a link for an object of this document."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return f"[{_title(kind)}](#{_title(kind).replace(' ', '-')})"
    if get_origin(kind) is Annotated:
        return in_words(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        inner = [one for one in get_args(kind) if one is not type(None)]
        return " or ".join(in_words(one) for one in inner)
    if get_origin(kind) is Literal:
        return "text"
    if get_origin(kind) in (list, tuple):
        return f"list of {in_words(get_args(kind)[0])}"
    if get_args(kind):
        return f"by name: {in_words(get_args(kind)[1])}"
    return _WORDS[kind]


def _title(part: type) -> str:
    return re.sub(r"(?<!^)([A-Z])", r" \1", part.__name__.removesuffix("Record")).lower()


def tables() -> str:
    """All of them, in Markdown."""
    lines: list[str] = []
    for part in parts():
        lines += ["", f"### {_title(part)}", "", *(inspect.getdoc(part) or "").splitlines(), ""]
        lines += ["| key | type | meaning |", "|---|---|---|"]
        for key in keys_of(part):
            name = f"**{key.name}**" if key.always else key.name
            lines.append(f"| {name} | {in_words(key.kind)}{key.unit} | {key.meaning} |")
    return "\n".join(lines)


def with_tables(text: str) -> str:
    """A document with its tables written anew; ValueError without the two markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no {_BEGIN!r} and {_END!r} in the document")
    return f"{before}{begin}\n{tables()}\n\n{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
