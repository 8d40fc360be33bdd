"""What the suite itself sends between ranks: no tensor has the default dtype, which a workload may change."""

import ast
from pathlib import Path

import pytest

import fixtures.ranks

MAKERS = ("empty", "full", "ones", "rand", "randn", "tensor", "zeros")
FILES = sorted(Path(fixtures.ranks.__path__[0]).rglob("*.py"))


def without_dtype(code: str) -> list[str]:
    return [
        ast.unparse(call)
        for call in ast.walk(ast.parse(code))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "torch"
        and call.func.attr in MAKERS
        and "dtype" not in {keyword.arg for keyword in call.keywords}
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_tensor_is_made_with_its_dtype(file: Path) -> None:
    assert without_dtype(file.read_text()) == []


def test_one_without_is_found() -> None:
    assert without_dtype("distributed.all_reduce(torch.zeros(1, device=device))") == ["torch.zeros(1, device=device)"]
