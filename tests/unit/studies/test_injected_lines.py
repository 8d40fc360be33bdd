"""Recognition of an injected cause in the reason of a slower test."""

import pytest

from tests.e2e.injected_causes import ON_CPU

LATE = "+80.6 ms a step: idle +40.1 ms (rough), exposed communication +39.4 ms (rough), in forward +80.2 ms"


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
