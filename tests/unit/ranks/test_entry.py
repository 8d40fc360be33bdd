"""The report of a rank on an exception."""

from fixtures.ranks.entry import _error_frame


def test_control_characters_in_an_exception_do_not_reach_the_terminal() -> None:
    error = _error_frame(1, ValueError("\x1b[31m red\r\nsecond line"))["error"]
    assert error["message"] == "raised ValueError: \\x1b[31m red\\r\nsecond line"
    assert "\x1b" not in error["traceback"]
