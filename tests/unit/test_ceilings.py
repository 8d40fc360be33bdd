"""At most so many files and statements in each room, the extras and the tests.

A commit that raises a ceiling says what left for what came. Docstrings are no statements, and neither line breaks nor
comments change their number.
"""

import ast
from collections import defaultdict
from pathlib import Path

from tests.rooms import ROOT

# Files, statements.
CEILINGS = {
    "fixtures": (3, 110),
    "matrix": (12, 993),
    "stats": (12, 1196),
    "machine": (6, 651),
    "trace": (6, 905),
    "launch": (11, 1272),
    "records": (11, 1688),
    "ranks": (35, 5045),
    "session": (25, 3060),
    "gradients": (20, 2408),
    "report": (13, 1851),
    "extras": (86, 7819),
    "tests": (353, 19000),
}


def statements(file: Path) -> int:
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def sizes() -> dict[str, tuple[int, int]]:
    files = defaultdict[str, list[Path]](list)
    for file in (*(ROOT / "fixtures").rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        parts = file.relative_to(ROOT).parts
        files[parts[1] if parts[0] == "fixtures" and len(parts) > 2 else parts[0]].append(file)
    return {name: (len(of), sum(map(statements, of))) for name, of in files.items()}


def test_no_room_is_larger_than_its_ceiling() -> None:
    found = sizes()
    assert found.keys() == CEILINGS.keys()
    larger = {
        name for name, size in found.items() if any(now > most for now, most in zip(size, CEILINGS[name], strict=True))
    }
    assert {name: found[name] for name in larger} == {}
