"""The rooms of ``fixtures/``: imports run one way, and only code in a rank imports torch."""

from tests.rooms import ARCHITECTURE, FLOORS, IN_A_RANK, ROOT, arrows, floor_of, imports, with_diagram


def test_every_module_is_in_a_room() -> None:
    folders = {file.name for file in (ROOT / "fixtures").iterdir() if file.is_dir() and file.name != "__pycache__"}
    assert folders == {room for floor in FLOORS for room in floor}


def test_imports_run_from_upper_floors_to_lower_ones() -> None:
    upwards = [(importer, imported) for importer, imported in arrows() if floor_of(imported) >= floor_of(importer)]
    assert upwards == []


def test_only_code_in_a_rank_imports_torch_at_the_top() -> None:
    torch = [one for one in imports() if one.at_top and one.imported.partition(".")[0] in ("torch", "torchvision")]
    assert torch
    assert [one for one in torch if not one.importer.startswith(IN_A_RANK)] == []


# What they import is imported when a builder is called, in a rank.
IMPORT_TORCH_WHEN_CALLED = {
    "fixtures.matrix.workloads",
    "fixtures.matrix.hooks",
    "fixtures.matrix.optimizers",
    "fixtures.gradients.cases.optimizers",
}


def test_outside_ranks_torch_is_imported_by_builders_only() -> None:
    torch = {one.importer for one in imports() if one.imported.partition(".")[0] in ("torch", "torchvision")}
    assert {module for module in torch if not module.startswith(IN_A_RANK)} == IMPORT_TORCH_WHEN_CALLED


def test_the_diagram_is_that_of_the_imports() -> None:
    text = ARCHITECTURE.read_text()
    assert with_diagram(text) == text
