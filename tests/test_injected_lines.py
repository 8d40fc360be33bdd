"""Where an injected cause is looked for in the line of a slower test."""

import re
from pathlib import Path

import pytest

from tests.injected_causes import ON_CPU, ON_GPUS

EXPLAIN = (Path(__file__).parent.parent / "docs/explain.md").read_text()
LATE = "+80.6 ms a step: idle +40.1 ms (rough), exposed communication +39.4 ms (rough), in forward +80.2 ms"
# As the rows of the document are ordered; of an oversized bucket it has none.
IN_THE_DOCUMENT = (
    *("shm", "net", "neighbour", "algorithm", "late rank", "no bucket view", "lying hook", "synchronisation"),
    *("many kernels", "starved loader"),
)


def test_the_lines_in_the_document_name_their_causes_and_no_others() -> None:
    lines = re.findall(r"^\|[^|]+\| (\+\S+ ms a step[^|]*) \|$", EXPLAIN, re.MULTILINE)
    for name, line in zip(IN_THE_DOCUMENT, lines, strict=True):
        also = ["many kernels"] if name == "synchronisation" else []  # a host that waits is late as well
        assert [one for one in IN_THE_DOCUMENT if ON_GPUS.causes[one].is_named_in(line)] == [name, *also], line


def test_the_lines_of_the_report_in_the_document_name_their_causes() -> None:
    rows = re.findall(r"^\| ([^|]+) \| \d+ of \d+ \| ([^|]+) \|$", EXPLAIN, re.MULTILINE)
    assert [name for name, line in rows if ON_CPU.causes[name].is_named_in(line)] == list(ON_CPU.causes)


@pytest.mark.parametrize(
    "line",
    [
        LATE,
        f"{LATE}; rank 0 is late: the others wait for it +39.9 ms",
        f"{LATE}; torch 2.10.0 -> 2.11.0; rank 1 is late: the others wait for it +39.9 ms",
        "+80.6 ms a step: compute +80.1 ms; rank 1 is late: the others wait for it +39.9 ms",
        "+80.6 ms a step; rank 1 is late: the others wait for it +39.9 ms",
    ],
    ids=["untold", "another rank", "not at its place", "another part", "no part"],
)
def test_a_cause_in_another_place_is_not_named(line: str) -> None:
    late = ON_CPU.causes["late rank"]
    assert late.is_named_in(f"{LATE}; rank 1 is late: the others wait for it +39.9 ms")
    assert not late.is_named_in(line)
