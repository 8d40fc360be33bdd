"""summary.md, to paste into an issue, and the picture of the card."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fixtures.extras.page.summary import card_svg, summary
from fixtures.report.card import card_of
from fixtures.report.commands import CLONE
from tests.run_reports import HOSTILE, h200, hostile, large, report_of, slower
from tests.saved_records import Record
from tests.unit.report.test_markdown import assert_all_is_in_blocks_of_code, with_the_way_out


def test_the_summary_has_what_an_issue_asks_for() -> None:
    command = f"{CLONE}/.venv/bin/pytest {CLONE}/perf -k throughput"
    text = summary(replace(report_of(h200()), next="record a baseline: pytest perf"), command)
    assert text.splitlines()[:8] == [
        "## ddp-perf",
        "",
        "```text",
        "instance: 4x-nvidia-h200-nv18",
        "machine: NVIDIA H200",
        "transport: P2P/CUMEM on 96 channels",
        "versions: torch 2.11.0+cu130, CUDA 13.0, NCCL 2.28.9, driver 580.159.04, Python 3.12.3",
        "step of ddp_default, vit_l_32, 4gpu: 89.17 ms (88.97 to 89.29 in 3 launches)",
    ]
    assert "costs about 4 % of a step of ddp_default" in text
    assert "\nnext: record a baseline: pytest perf\ncommand: .venv/bin/pytest perf -k throughput\n```\n" in text


@pytest.mark.parametrize("record", [h200(), slower(h200()), large(90, 1)])
def test_it_is_short_and_names_no_host(record: Record) -> None:
    record["environment"]["host"] = "node-of-a-customer"
    text = summary(report_of(record), "pytest perf\n```\n# a")
    assert len(text.splitlines()) <= 30
    assert "node-of-a-customer" not in text


@pytest.mark.parametrize("record", [hostile(h200()), with_the_way_out(h200())], ids=["names", "texts"])
def test_every_text_of_a_record_is_in_a_block_of_code(record: Record) -> None:
    assert_all_is_in_blocks_of_code(summary(report_of(record)))


@pytest.mark.parametrize("record", [h200(), hostile(h200())])
def test_the_picture_of_the_card_has_its_text_and_nothing_else(record: Record) -> None:
    record["instance"] = record["instance"] + HOSTILE
    elements = list(ElementTree.fromstring(card_svg(report_of(record))).iter())
    assert {element.tag.partition("}")[2] for element in elements} == {"svg", "rect", "circle", "g", "text", "tspan"}
    shown = " ".join(element.text or "" for element in elements)
    assert all(f"{finding.label}:" in shown for finding in card_of(report_of(record)).lines())
