"""Texts from files: control characters are quoted, long ones shortened, whatever object they come from."""

import io

import pytest

from fixtures.matrix.plain_text import PlainStream, one_line, quoted, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("bell\x07 back\x08 \r\0\x7f", "bell\\x07 back\\x08 \\r\\x00\\x7f"),
        ("right\u202eleft", "right\\u202eleft"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028break", "line\\u2028break"),
        ("half \udcff", "half \\udcff"),
        ("ä€ 😀 äö", "ä€ 😀 äö"),
    ],
)
def test_control_characters_are_quoted_and_letters_are_not(text: str, shown: str) -> None:
    assert quoted(text) == quoted(text, lines=True) == shown


def test_line_breaks_stay_where_lines_are_printed_and_what_is_printed_is_quoted() -> None:
    assert quoted("a\n\tb", lines=True) == "a\n\tb"
    assert one_line("a\n\tb") == "a\\n\\tb"
    there = io.StringIO()
    print("\x1b]0;title\x07", "\udcff", file=PlainStream(there))
    assert there.getvalue() == "\\x1b]0;title\\x07 \\udcff\n"


def test_a_long_text_keeps_its_beginning_and_its_end_and_an_object_without_one_its_type() -> None:
    shown = one_line("begin" + "x" * 10**6 + "end", 100)
    assert shown.startswith("beginxxx")
    assert shown.endswith("xxxend")
    assert "(999908 characters)" in shown
    assert len(shown) < 150

    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert shortened(Silent(), 100) == "<Silent without a text>"
