"""The rooms of ``fixtures/`` and the imports between them.

``python -m tests.rooms`` writes the diagram in docs/architecture.md anew.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fixtures.extras import EXTRAS

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs/architecture.md"
# From the bottom to the top: a room imports from rooms of lower floors, never from its own floor or above.
FLOORS = (
    ("matrix",),
    ("stats",),
    ("machine", "trace"),
    ("launch",),
    ("records", "ranks"),
    ("session",),
    ("gradients",),
    ("report",),
)
# Where torch may be imported at the top of a module: code that runs inside a rank.
IN_A_RANK = (
    "fixtures.ranks.",
    "fixtures.gradients.in_rank.",
    "fixtures.extras.hooks.all_to_all",
    "fixtures.extras.launchers.",
    "fixtures.extras.loss.in_rank.",
    "fixtures.extras.whole.in_rank.",
    "fixtures.extras.several_machines.meeting",  # a process of its own
)
_BEGIN, _END = "<!-- rooms: written by python -m tests.rooms -->", "<!-- end of rooms -->"


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """importer, imported: dotted names of modules. at_top: not inside a function or ``if TYPE_CHECKING``."""

    importer: str
    imported: str
    at_top: bool


@cache
def imports(folder: str = "fixtures") -> tuple[Import, ...]:
    return tuple(_imports(folder))


def _imports(folder: str) -> Iterator[Import]:
    """Every import in a folder. ``from package import name`` imports ``package.name`` if that is a module."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        importer = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [_module(node.module, alias.name) for alias in node.names]
            else:
                continue
            for name in names:
                yield Import(importer=importer, imported=name, at_top=node.col_offset == 0)


def _module(package: str, name: str) -> str:
    """The module that ``from package import name`` imports."""
    inside = f"{package}.{name}"
    path = ROOT / inside.replace(".", "/")
    return inside if path.is_dir() or path.with_suffix(".py").exists() else package


def room_of(module: str) -> str | None:
    """The room of a module of ``fixtures``; None for ``fixtures.__main__``, for extras and for other packages."""
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return room if package == "fixtures" and any(room in floor for floor in FLOORS) else None


def extra_of(module: str) -> str | None:
    """The extra to which a module belongs; None for the list of extras and for the core."""
    package, _, rest = module.partition(".extras.")
    extra = rest.partition(".")[0]
    return extra if package == "fixtures" and extra in EXTRAS else None


def arrows() -> set[tuple[str, str]]:
    """Each (importing room, imported room)."""
    rooms = ((room_of(one.importer), room_of(one.imported)) for one in imports())
    return {(importer, imported) for importer, imported in rooms if importer and imported and importer != imported}


def floor_of(room: str) -> int:
    """0 is the bottom."""
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


def diagram() -> str:
    """The rooms as a Mermaid flowchart, top floor first; an arrow that a longer way implies is left out."""
    drawn = arrows()
    below: dict[str, set[str]] = {room: set() for floor in FLOORS for room in floor}
    for importer, imported in drawn:
        below[importer].add(imported)

    def reaches(start: str, goal: str) -> bool:
        return goal in below[start] or any(reaches(room, goal) for room in below[start])

    lines = ["```mermaid", "flowchart TD"]
    for floor in reversed(FLOORS):
        for room in floor:
            direct = [
                imported
                for imported in sorted(below[room])
                if not any(reaches(other, imported) for other in below[room] - {imported})
            ]
            lines += [f"    {room} --> {imported}" for imported in direct]
    return "\n".join([*lines, "```"])


def with_diagram(text: str) -> str:
    """A document with its diagram written anew; ValueError without the two markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no {_BEGIN!r} and {_END!r} in the document")
    return f"{before}{begin}\n{diagram()}\n{end}{after}"


if __name__ == "__main__":
    ARCHITECTURE.write_text(with_diagram(ARCHITECTURE.read_text()))
