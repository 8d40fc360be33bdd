"""summary.md, to paste into an issue, and the picture of the card."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fixtures.report.card import card_of
from fixtures.report.summary import card_svg, summary
from tests.run_reports import HOSTILE, h200, hostile, large, report_of, slower
from tests.saved_records import Record


def test_the_summary_has_what_an_issue_asks_for() -> None:
    text = summary(replace(report_of(h200()), command="pytest perf -k throughput"))
    assert text.splitlines()[:7] == [
        "## ddp-perf on 4x-nvidia-h200-nv18",
        "",
        "| | |",
        "|---|---|",
        "| machine | NVIDIA H200 |",
        "| transport | P2P/CUMEM on 96 channels |",
        "| versions | torch 2.11.0+cu130, CUDA 13.0, NCCL 2.28.9, driver 580.159.04, Python 3.12.3 |",
    ]
    assert "| step of ddp\\_default, vit\\_l\\_32, 4gpu | 89.17 ms (88.97 to 89.29 in 3 launches) |" in text
    assert (
        "| communication | costs 4.2 % of a step of ddp\\_default, PyTorch's default (95 % interval 3.8 to 4.7 %) |"
        in text
    )
    assert text.endswith("```sh\npytest perf -k throughput\n```\n")


@pytest.mark.parametrize("record", [h200(), slower(h200()), hostile(h200()), large(90, 1)])
def test_it_has_at_most_25_lines_and_names_no_host(record: Record) -> None:
    record["environment"]["host"] = "node-of-a-customer"
    text = summary(replace(report_of(record), command="pytest perf\n```\n# a"))
    assert len(text.splitlines()) <= 25
    assert "node-of-a-customer" not in text


@pytest.mark.parametrize("record", [h200(), hostile(h200())])
def test_the_picture_of_the_card_has_its_text_and_nothing_else(record: Record) -> None:
    record["instance"] = record["instance"] + HOSTILE
    elements = list(ElementTree.fromstring(card_svg(report_of(record))).iter())
    assert {element.tag.partition("}")[2] for element in elements} == {"svg", "rect", "circle", "g", "text", "tspan"}
    shown = " ".join(element.text or "" for element in elements)
    assert all(f"{finding.label}:" in shown for finding in card_of(report_of(record)).lines())
