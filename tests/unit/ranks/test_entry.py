"""The report of a rank on an exception, and the caches that its calls share."""

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

import fixtures.ranks
from fixtures.ranks.entry import _error_frame
from tests.builders import as_rank


def test_control_characters_in_an_exception_do_not_reach_the_terminal() -> None:
    error = _error_frame(1, ValueError("\x1b[31m red\r\nsecond line"))["error"]
    assert error["message"] == "raised ValueError: \\x1b[31m red\\r\nsecond line"
    assert "\x1b" not in error["traceback"]


def test_what_a_rank_caches_serves_its_next_call_too(tmp_path: Path) -> None:
    ctx = as_rank(tmp_path)
    assert {replace(ctx, answer=_answering()) for _ in range(2)} == {ctx}


def _answering() -> Callable[[object], NoReturn]:
    """As each call has: a function of its own."""

    def answer(result: object) -> NoReturn:
        raise AssertionError

    return answer


_IMPORTS = """
import sys
sys.modules["numpy"] = sys.modules["nvtx"] = None
import fixtures.ranks.interleaved, fixtures.ranks.training, fixtures.ranks.script.running
from fixtures.ranks.gradient_error import other_generators_kept, seed_all
with other_generators_kept():
    seed_all(0)
"""


def test_ranks_need_no_numpy() -> None:
    """The other interpreter of ``--against`` needs only torch."""
    ended = subprocess.run([sys.executable, "-c", _IMPORTS], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr


MAKERS = ("empty", "full", "ones", "rand", "randn", "tensor", "zeros")
FILES = sorted(Path(fixtures.ranks.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_tensor_is_made_with_its_dtype_and_device(file: Path) -> None:
    assert [
        ast.unparse(call)
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == "torch"
        and call.func.attr in MAKERS
        and not {"dtype", "device"} <= {keyword.arg for keyword in call.keywords}
    ] == []
