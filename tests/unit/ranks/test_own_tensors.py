"""The suite's own tensors in a rank have neither the default dtype nor the default device, which a workload may set."""

import ast
from pathlib import Path

import pytest

import fixtures.ranks

MAKERS = ("empty", "full", "ones", "rand", "randn", "tensor", "zeros")
FILES = sorted(Path(fixtures.ranks.__path__[0]).rglob("*.py"))


def without_dtype_or_device(code: str) -> list[str]:
    return [
        ast.unparse(call)
        for call in ast.walk(ast.parse(code))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "torch"
        and call.func.attr in MAKERS
        and not {"dtype", "device"} <= {keyword.arg for keyword in call.keywords}
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_tensor_is_made_with_its_dtype_and_device(file: Path) -> None:
    assert without_dtype_or_device(file.read_text()) == []
