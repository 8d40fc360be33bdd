"""JSON that Python's reader takes silently is an error."""

import pytest

from fixtures.trace.foreign_files import BadJson, strict_json


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' is twice in one object"),
        (b"[1, NaN]", "the number NaN is beyond 1e+30"),
        (b"[1e999]", "the number 1e999 is beyond 1e+30"),
        (b"[" + b"9" * 5000 + b"]", f"the whole number {'9' * 40} is beyond 64 bits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'["\xff"]', "not UTF-8 at byte 2 of 5"),
        (b'{"a": 1', "Expecting ',' delimiter at byte 7 of 7"),
    ],
)
def test_what_is_wrong_is_reported(text: bytes, says: str) -> None:
    with pytest.raises(BadJson) as refused:
        strict_json(text)
    assert str(refused.value) == says


def test_a_profiler_may_repeat_a_key_with_its_value() -> None:
    assert strict_json(b'{"a": 1, "a": 1}', repeated_equal=True) == {"a": 1}
    with pytest.raises(BadJson, match="twice"):
        strict_json(b'{"a": 1, "a": 2}', repeated_equal=True)
