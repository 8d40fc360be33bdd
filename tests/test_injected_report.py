"""The table that counts how often injected causes were named."""

from tests.injected_causes import ON_CPU
from tests.injected_report import table


def test_the_table_counts_how_often_a_cause_was_named() -> None:
    named, other = "+188 ms a step: idle +185 ms, in input +188 ms", "+80 ms a step: compute +80 ms"
    causes = {"starved loader": ON_CPU.causes["starved loader"], "late rank": ON_CPU.causes["late rank"]}
    said: dict[str, list[str | None]] = {"starved loader": [named, other, None], "late rank": [None, None, None]}
    assert list(table(causes, said))[2:] == [
        f"| starved loader | 1 of 3 | {named} |",
        "| late rank | 0 of 3 | nothing: not slower |",
    ]
