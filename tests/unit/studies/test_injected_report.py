"""Table of the injected causes that were named."""

from studies.injected_report import table
from tests.e2e.injected_causes import ON_CPU


def test_the_table_counts_how_often_a_cause_was_named() -> None:
    named, other = "+188 ms a step: idle +185 ms, in input +188 ms", "+80 ms a step: compute +80 ms"
    causes = {"starved loader": ON_CPU.causes["starved loader"], "late rank": ON_CPU.causes["late rank"]}
    reasons: dict[str, list[str | None]] = {"starved loader": [named, other, None], "late rank": [None, None, None]}
    assert list(table(causes, reasons))[2:] == [
        f"| starved loader | 1 of 3 | {named} |",
        "| late rank | 0 of 3 | none: not slower |",
    ]
