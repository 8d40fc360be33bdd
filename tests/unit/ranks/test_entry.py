"""The report of a rank on an exception, and the caches that its calls share."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from fixtures.ranks.entry import _error_frame
from tests.builders import as_rank


def test_control_characters_in_an_exception_do_not_reach_the_terminal() -> None:
    error = _error_frame(1, ValueError("\x1b[31m red\r\nsecond line"))["error"]
    assert error["message"] == "raised ValueError: \\x1b[31m red\\r\nsecond line"
    assert "\x1b" not in error["traceback"]


def test_what_a_rank_caches_serves_its_next_call_too(tmp_path: Path) -> None:
    ctx = as_rank(tmp_path)
    calls = {replace(ctx, answer=_answering()) for _ in range(2)}
    assert calls == {ctx}


def _answering() -> Callable[[object], NoReturn]:
    """As each call has: a function of its own."""

    def answer(result: object) -> NoReturn:
        raise AssertionError

    return answer
