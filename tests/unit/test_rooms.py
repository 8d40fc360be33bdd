"""The rooms of ``fixtures/``: imports run one way, extras are on their own, and only code in a rank imports torch."""

import ast
import re
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

from fixtures.extras import EXTRAS
from tests.rooms import (
    ARCHITECTURE,
    FLOORS,
    IN_A_RANK,
    ROOT,
    arrows,
    extra_of,
    floor_of,
    imports,
    room_of,
    with_diagram,
)

FOLDER = ROOT / "fixtures/extras"
CORE = [file for file in (ROOT / "fixtures").rglob("*.py") if not file.is_relative_to(FOLDER)]


def folders(parent: Path) -> set[str]:
    return {file.name for file in parent.iterdir() if file.is_dir() and file.name != "__pycache__"}


def test_every_module_is_in_a_room_or_an_extra() -> None:
    assert folders(ROOT / "fixtures") == {"extras", *(room for floor in FLOORS for room in floor)}


def test_every_extra_is_in_the_list_and_has_its_parts_and_its_question() -> None:
    assert folders(FOLDER) == EXTRAS.keys()
    parts = {f"{extra}/{part}.py" for extra, parts in EXTRAS.items() for part in parts}
    assert {part for part in parts if not (FOLDER / part).exists()} == set()
    table = (FOLDER / "README.md").read_text().partition("| extra |")[2]
    assert EXTRAS.keys() <= set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_a_file_name_and_a_class_name_of_the_core_occur_once() -> None:
    """But for the parts of an extra, which the core imports by name."""
    parts = {FOLDER / extra / f"{part}.py" for extra, parts in EXTRAS.items() for part in parts}
    files = [file for file in (ROOT / "fixtures").rglob("*.py") if file.name != "__init__.py" and file not in parts]
    nodes = [node for file in CORE for node in ast.walk(ast.parse(file.read_text()))]
    names = [*(file.name for file in files), *(node.name for node in nodes if isinstance(node, ast.ClassDef))]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_no_module_of_the_core_imports_or_names_an_extra_and_no_extra_another() -> None:
    assert [one for one in imports() if extra_of(one.imported) and not extra_of(one.importer)] == []
    assert [file for file in CORE if re.search(r"extras[./](?!README)\w", file.read_text())] == []
    between = [(extra_of(one.importer), extra_of(one.imported)) for one in imports()]
    assert [pair for pair in between if None not in pair and pair[0] != pair[1]] == []


def test_imports_run_from_upper_floors_to_lower_ones() -> None:
    assert [(one, other) for one, other in arrows() if floor_of(other) >= floor_of(one)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count."""
    imported = defaultdict(set)
    for one in imports():
        imported[one.importer].add(one.imported)
    TopologicalSorter(imported).prepare()  # CycleError names the circle


# Rooms in which a small module with one importer is a part of it.
WITHOUT_SMALL_MODULES = ("gradients", "launch", "machine", "matrix", "ranks", "records", "report", "stats", "trace")


def test_a_module_with_one_importer_has_at_least_sixty_lines() -> None:
    every = ((one.imported, one.importer) for one in (*imports(), *imports("perf")))
    importers = Counter(imported for imported, _ in {*every} if room_of(imported) in WITHOUT_SMALL_MODULES)
    files = [(ROOT / one.replace(".", "/")).with_suffix(".py") for one, number in importers.items() if number == 1]
    assert [file for file in files if file.exists() and len(file.read_text().splitlines()) < 60] == []


# What they import is imported when a builder is called, in a rank.
IMPORT_TORCH_WHEN_CALLED = {"fixtures.matrix.workloads", "fixtures.matrix.hooks", "fixtures.matrix.shardings"}


def test_only_code_in_a_rank_imports_torch_at_the_top_and_only_builders_elsewhere() -> None:
    torch = [one for one in imports() if one.imported.partition(".")[0] in ("torch", "torchvision")]
    top = [one for one in torch if one.at_top]
    assert top
    assert [one for one in top if not one.importer.startswith(IN_A_RANK)] == []
    assert {one.importer for one in torch if not one.importer.startswith(IN_A_RANK)} == IMPORT_TORCH_WHEN_CALLED


def test_what_ranks_import_does_not_need_msgspec() -> None:
    """With --against, ranks run under another interpreter, which may lack it."""
    needed = {one.importer for one in imports() if one.importer.startswith("fixtures.ranks.")}
    while more := {one.imported for one in imports() if one.importer in needed} - needed:
        needed |= more
    assert "fixtures.trace.breakdown" in needed
    assert [module for module in needed if module.partition(".")[0] == "msgspec"] == []


def test_the_diagram_is_that_of_the_imports() -> None:
    text = ARCHITECTURE.read_text()
    assert with_diagram(text) == text


def test_the_core_has_one_hook_for_each_end() -> None:
    """fixtures/report/order_of_run.py: who comes after whom is read there, not found by running."""
    hooks = Counter(re.findall(r"def (pytest_\w+)\(", "".join(file.read_text() for file in CORE)))
    ends = ("runtest_makereport", "runtestloop", "sessionfinish", "terminal_summary")
    assert {end: hooks[f"pytest_{end}"] for end in ends} == dict.fromkeys(ends, 1)
