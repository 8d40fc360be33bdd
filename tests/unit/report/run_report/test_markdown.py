"""The report in Markdown."""

import re

import pytest

from fixtures.report.run_report.markdown import MOST_CHARACTERS, code, escaped, markdown
from tests.run_reports import DDP, HOSTILE, h200, hostile, large, report_of, slower, with_transfers


def test_it_begins_with_the_answer_and_names_what_is_slower() -> None:
    lines = markdown(report_of(slower(h200()))).splitlines()
    assert lines[0] == "## ddp-perf: 1 of 40 tests got slower"
    assert f"- `{DDP}`: slower by 5.1 %; cause: NCCL 2.28 -\\> 2.29" in lines


def test_the_tables_have_all_tests_the_slower_ones_first() -> None:
    lines = markdown(report_of(with_transfers(slower(h200())))).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == 43
    assert rows[0].startswith("| `ddp` |")
    assert {line.count("|") for line in rows[:40]} == {lines[lines.index(rows[0]) - 1].count("|")}


def test_hostile_text_stays_in_its_cell_and_does_nothing() -> None:
    text = markdown(report_of(hostile(h200())))
    without_blocks = re.sub(r"^(`{3,})python$.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside_of_code = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", without_blocks)
    assert re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside_of_code) is None
    assert "@all" not in outside_of_code
    assert "](javascript" not in outside_of_code.replace("\\]", "")
    rows = [line for line in text.splitlines() if line.startswith(("| `", "| ``"))]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


@pytest.mark.parametrize("text", ["a|b", "a\nb", "`", "``a`", HOSTILE])
def test_a_name_in_a_table_is_one_cell_of_code(text: str) -> None:
    shown = code(text)
    assert "\n" not in shown
    assert re.search(r"(?<!\\)\|", shown) is None
    fence = re.match(r"`+", shown)
    assert fence is not None
    assert fence[0] not in shown[len(fence[0]) : -len(fence[0])].strip().replace(fence[0] + "`", "")


def test_escaped_text_has_no_markup() -> None:
    assert escaped("a <b> *c* [d](e) #1 @f\n| g") == (
        "a \\<b\\> \\*c\\* \\[d\\](e) #\N{ZERO WIDTH SPACE}1 @\N{ZERO WIDTH SPACE}f \\| g"
    )


def test_a_comment_of_github_has_room_for_any_run() -> None:
    text = markdown(report_of(large(900, 1), history=False))
    assert len(text) < MOST_CHARACTERS
    assert re.search(r"^And \d+ more: see report\.html\.$", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>")
