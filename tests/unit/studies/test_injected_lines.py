"""Recognition of an injected cause in the reason of a slower test."""

import re
from pathlib import Path

import pytest

from tests.e2e.injected_causes import ON_CPU, ON_GPUS

EXPLAIN = (Path(__file__).parents[3] / "docs/studies/breakdown.md").read_text()
LATE = "+80.6 ms a step: idle +40.1 ms (rough), exposed communication +39.4 ms (rough), in forward +80.2 ms"


def rows() -> list[tuple[str, str]]:
    """(cause, line) of the table of the GPUs, then of the table of the CPU."""
    return re.findall(r"^\| ([^|]+) \| \d+ of \d+ \| ([^|]+) \|$", EXPLAIN, re.MULTILINE)


def test_the_lines_of_gpus_in_the_document_name_only_their_causes() -> None:
    found = rows()[: len(ON_GPUS.causes)]
    assert [name for name, _ in found] == list(ON_GPUS.causes)
    for name, line in found:
        # A host that waits is late as well.
        also = ["many kernels"] if name == "synchronisation" else []
        assert [one for one, cause in ON_GPUS.causes.items() if cause.is_named_in(line)] == [name, *also], line


def test_the_lines_of_the_cpu_in_the_document_name_their_causes() -> None:
    found = rows()[len(ON_GPUS.causes) :]
    assert [name for name, line in found if ON_CPU.causes[name].is_named_in(line)] == list(ON_CPU.causes)


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
