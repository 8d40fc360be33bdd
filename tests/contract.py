"""The names that docs/reference/stability.md promises, as lines of text: the files of ``tests/frozen``.

``python -m tests.contract`` writes them anew. A line that goes needs a line in CHANGELOG.md.
"""

import dataclasses
import inspect
import re
import sys
from argparse import SUPPRESS
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from fixtures.extras.schema.keys import parts_in
from fixtures.gradients.fixtures import PromiseCheck
from fixtures.matrix.config import Config
from fixtures.matrix.hook import Hook
from fixtures.matrix.recorded import UNRECORDED, is_promised
from fixtures.matrix.workloads import Workload
from fixtures.records.schema import FullRecord
from fixtures.session.measure import Bandwidth, Measure
from fixtures.session.options import add_options
from tests.command_line import ROOT, run
from tests.fake_gpus import machine

CONTRACT = ROOT / "tests/frozen/contract.txt"
TEST_IDS = ROOT / "tests/frozen/test_ids.txt"
_PAGES = (*(ROOT / "docs/how-to").glob("*.md"), ROOT / "README.md", ROOT / "docs/start.md")


def contract() -> list[str]:
    """Every promised name, one a line, in a fixed order. Not the test ids: they need a machine."""
    return [*_options(), *_commands(), *sorted(_keys()), *_words(), *_names()]


def _options() -> Iterator[str]:
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    options = [option for group in (*parser._groups, parser._anonymous) for option in group.options]
    for option in sorted(options, key=lambda option: list(option.names())):
        attributes = option.attrs()
        kind = attributes.get("choices") or attributes.get("metavar") or attributes.get("action", "VALUE")
        yield f"option {' '.join(option.names())} {kind} = {attributes.get('default')}"


def _commands() -> Iterator[str]:
    from fixtures.__main__ import COMMANDS

    for command in sorted(COMMANDS, key=lambda command: command.name):
        if command.usage:
            yield f"command {command.name} {command.usage}"
        for names, settings in command.arguments:
            default = settings.get("default")
            shown = "" if default in (None, SUPPRESS) or isinstance(default, Path) else f" = {default}"
            yield f"command {command.name} {' '.join(names)}{shown}"
        yield f"command {command.name} prints {command.prints or 'lines alone'}"


# Any: a type, or what typing makes of several.
def _keys(part: Any = FullRecord, path: str = "record") -> Iterator[str]:
    """Each key of the JSON by its path, with its type: ``record.benchmarks[].extra_info.world: str | None``."""
    hints = get_type_hints(part)
    for field in dataclasses.fields(part):
        if field.metadata == UNRECORDED:
            continue
        key, kind = field.name, hints[field.name]
        plain = re.sub(r"[\w.]+\.(\w+)", r"\1", str(kind) if get_args(kind) else kind.__name__)
        parts = {one.__name__: one for one in parts_in(kind)}
        for name in parts:
            plain = plain.replace(name, "object")
        yield f"{path}.{key}: {plain}{', always' if is_promised(field) else ''}"
        for inner in parts.values():
            yield from _keys(inner, f"{path}.{key}" + ("[]" if "list" in plain or "Mapping" in plain else ""))


def _words() -> Iterator[str]:
    text = (ROOT / "docs/reference/stability.md").read_text()
    yield from (f"word {word}" for word in re.findall(r"`([a-z ]+)`", text.partition("keys of a record")[0]))
    exits = text.partition("## Exit codes")[2].partition("##")[0]
    yield f"exit codes: {' '.join(exits.split())}"


def _names() -> Iterator[str]:
    pages = "\n".join(page.read_text() for page in _PAGES)
    for promised in (Workload, Hook, Config):
        shown = [one.name for one in dataclasses.fields(promised) if re.search(rf"\b{one.name}=", pages)]
        yield f"name {promised.__module__}.{promised.__name__}: {', '.join(shown)}"
    for fixture in (Measure, PromiseCheck):
        arguments = inspect.signature(fixture.__call__).parameters
        yield f"fixture {fixture.__module__}.{fixture.__name__}: {', '.join(map(str, arguments.values()))}"
    yield f"fixture {Measure.__module__}.Bandwidth: {[kind.__name__ for kind in get_args(Bandwidth)[0]]}"


def collected() -> list[str]:
    """The ids of all tests on four GPUs, with what is measured on request."""
    files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "perf").glob("test_*.py"))
    options = ("--benchmark-storage=baselines", "-p", "tests.fake_gpus", "--collect-only", "-q")
    return run(sys.executable, "-m", "pytest", *files, *options, variables=machine()).test_ids


if __name__ == "__main__":
    TEST_IDS.write_text("".join(f"{test}\n" for test in sorted(collected())))
    CONTRACT.write_text("".join(f"{line}\n" for line in contract()))
