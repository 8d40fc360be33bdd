"""The report in Markdown."""

import re

import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options

from fixtures.extras.page.markdown import MOST_CHARACTERS, markdown
from tests.run_reports import DDP, h200, hostile, large, report_of, slower, with_transfers
from tests.saved_records import Record


def test_it_begins_with_the_answer_and_has_every_config_once_the_slower_ones_first() -> None:
    lines = markdown(report_of(slower(h200()))).splitlines()
    assert lines[0] == "## ddp-perf"
    assert "verdict: 1 slower, 32 ok (33 measured tests)" in lines
    assert f"    {DDP}: slower by 5.1 %; cause: NCCL 2.28" in lines
    lines = markdown(report_of(with_transfers(slower(h200())))).splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch("-+(  -+)+", line)]
    assert [lines.index("```", rule) - rule - 1 for rule in rules] == [28, 3]
    assert lines[rules[0] + 1].startswith("ddp ")


# In each text of a record: it would leave a fence of three and write to a team.
OUT = "\n```\n@team closes #2 <img src=x>\r~~~\n"


# Any: JSON.
def with_the_way_out(value: object) -> object:
    """The record in which every text that may say anything has OUT."""
    if isinstance(value, dict):
        return {key: one if key in ("word", "reason") else with_the_way_out(one) for key, one in value.items()}
    if isinstance(value, list):
        return [with_the_way_out(one) for one in value]
    return value + OUT if isinstance(value, str) and value[:4] != "2026" else value


def assert_all_is_in_blocks_of_code(text: str) -> None:
    html = github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE)
    outside = re.sub("<pre.*?</pre>", "", html, flags=re.DOTALL)
    assert set(re.findall(r"<(\w+)", html)) <= {"h2", "pre", "code", "details", "summary"}
    titles = r"\d+ configs?|\d+ bare transfers?|Lines to paste|Losses"
    assert re.sub(titles, "", re.sub("<.*?>", "", outside)).split() == ["ddp-perf"]
    assert "</pre>" in html


@pytest.mark.parametrize("record", [hostile(h200()), with_the_way_out(h200())], ids=["names", "texts"])
def test_every_text_of_a_record_is_in_a_block_of_code(record: Record) -> None:
    assert_all_is_in_blocks_of_code(markdown(report_of(record)))


def test_a_comment_of_github_has_room_for_any_run() -> None:
    text = markdown(report_of(large(900, 1)))
    assert len(text) < MOST_CHARACTERS
    assert re.search(r"^And \d+ more lines: see run\.json\.$", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>")
