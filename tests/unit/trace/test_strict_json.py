"""Numbers that Python's reader of JSON takes, and with which nothing can be calculated, are an error."""

import pytest

from fixtures.trace.foreign_files import UnreadableFile, strict_json


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[1, NaN]", "the number NaN is beyond 1e+30"),
        (b"[1e999]", "the number 1e999 is beyond 1e+30"),
        (b"[" + b"9" * 5000 + b"]", f"the number {'9' * 40} is beyond 1e+30"),
        (b"[" * 100_000, "recursion"),
        (b'["\xff"]', "can't decode byte 0xff in position 2"),
        (b'{"a": 1', "Expecting ',' delimiter: line 1 column 8"),
    ],
)
def test_what_is_wrong_is_reported(text: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile) as refused:
        strict_json(text)
    assert str(refused.value).startswith("cannot be read: incomplete or damaged JSON (")
    assert says in str(refused.value)
