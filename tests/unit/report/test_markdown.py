"""The report in Markdown."""

import re
from html import unescape

import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options

from fixtures.report.markdown import MOST_CHARACTERS, code, escaped, markdown
from tests.run_reports import DDP, HOSTILE, h200, hostile, large, report_of, slower, with_transfers


def test_it_begins_with_the_answer_and_has_every_config_once_the_slower_ones_first() -> None:
    lines = markdown(report_of(slower(h200()))).splitlines()
    assert lines[0] == "## ddp-perf: 1 slower, 32 ok (33 measured tests)"
    assert f"- `{DDP}`: slower by 5.1 %; cause: NCCL 2.28 -\\> 2.29" in lines
    lines = markdown(report_of(with_transfers(slower(h200())))).splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == 28 + 3
    assert rows[0].startswith("| `ddp` |")
    assert {line.count("|") for line in rows[:28]} == {lines[lines.index(rows[0]) - 1].count("|")}


def test_hostile_text_is_text_in_its_cell() -> None:
    html = github_flavored_markdown_to_html(markdown(report_of(hostile(h200()))), options=Options.CMARK_OPT_UNSAFE)
    tags = {"h2", "p", "strong", "ul", "li", "code", "pre", "details", "summary"}
    assert set(re.findall(r"<(\w+)", html)) == tags | {"table", "thead", "tbody", "tr", "th", "td"}
    (table,) = re.findall(r"<table>.*</table>", html, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    assert len(rows) == 29
    assert {len(re.findall(r"<t[hd]", row)) for row in rows} == {rows[0].count("<th")}
    configs = {benchmark["extra_info"]["config"].replace("\n", " ") for benchmark in hostile(h200())["benchmarks"]}
    shown = {unescape(cell) for cell in re.findall(r"<td><code>(.*?)</code>", table)}
    assert shown < configs
    assert len(configs - shown) == 4  # second names


def test_nobody_is_notified_by_a_reason() -> None:
    assert escaped("by @team, see #12") == "by @\N{ZERO WIDTH SPACE}team, see #\N{ZERO WIDTH SPACE}12"


@pytest.mark.parametrize("text", ["a|b", "a`b", "`", "``a`", "*a* <b> _c_ \\", HOSTILE])
def test_a_name_is_code_and_a_reason_is_text_whatever_they_are(text: str) -> None:
    shown = " ".join(text.split())
    html = github_flavored_markdown_to_html(f"{code(text)} {escaped(text)}").strip()
    inside = re.fullmatch(r"<p><code>(.*)</code> (.*)</p>", html)
    assert inside is not None
    assert [unescape(part).replace("\N{ZERO WIDTH SPACE}", "") for part in inside.groups()] == [shown, shown]


def test_a_comment_of_github_has_room_for_any_run() -> None:
    text = markdown(report_of(large(900, 1)))
    assert len(text) < MOST_CHARACTERS
    assert re.search(r"^And \d+ more: see run\.json\.$", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>")
