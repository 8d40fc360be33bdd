"""JSON that Python's reader takes silently is an error with its place."""

import pytest

from fixtures.inputs import strict_json as module
from fixtures.inputs.strict_json import BadJson, strict_json


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "the key 'c' is twice in one object"),
        (b'{"a": 1, "b": 2, "a": 2}', "the key 'a' is twice in one object (with 'b')"),
        (b'["\\ud800"]', "half of a surrogate pair, \\ud800, in a text"),
        (b'{"\\uDFFF": 1}', "half of a surrogate pair, \\udfff, in a text"),
        (b"[1, NaN]", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e999]", "the number 1e999 is beyond 1e+30"),
        (b"[18446744073709551616]", "the whole number 18446744073709551616 is beyond 64 bits"),
        (b"[" + b"9" * 5000 + b"]", f"the whole number {'9' * 40} is beyond 64 bits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'["\xff"]', "not UTF-8 at byte 2 of 5"),
        (b'{"a": 1', "Expecting ',' delimiter at byte 7 of 7"),
        (b'["\x1b"]', "Invalid control character at at byte 2 of 5"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(text: bytes, says: str) -> None:
    with pytest.raises(BadJson) as refused:
        strict_json(text)
    assert str(refused.value) == says


def test_sound_json_is_read() -> None:
    assert strict_json('{"a": [1, 2.5, -3e-7, null, true, "ä\\ud83d\\ude00"]}'.encode()) == {
        "a": [1, 2.5, -3e-7, None, True, "ä😀"]
    }


def test_a_profiler_may_repeat_a_key_with_its_value() -> None:
    assert strict_json(b'{"a": 1, "a": 1}', repeated_equal=True) == {"a": 1}
    with pytest.raises(BadJson, match="twice"):
        strict_json(b'{"a": 1, "a": 2}', repeated_equal=True)


def test_the_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VALUES", 1000)
    with pytest.raises(BadJson, match=r"^3,001 values, at most 1,000 are read$"):
        strict_json(b"[" + b"[]," * 1500 + b"0]")
