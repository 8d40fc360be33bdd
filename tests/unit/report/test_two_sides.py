"""The table of what differs between the two sides."""

from dataclasses import replace

from fixtures.report.table import _differences, _number, _slowed
from fixtures.session.explanation import Explanation
from tests.h200 import on_ranks, step


def side(**kernels: tuple[int, int]) -> Explanation:
    """The same step of one rank, with these kernels: ns and number."""
    return Explanation(breakdown=on_ranks((replace(step(10, 1, 0, 0), kernels=kernels),)), measured_step_ms=11)


def test_kernels_that_differ_are_ranked_with_their_numbers_and_others_left_out() -> None:
    here = side(gemm=(9_000_000, 10), copy=(100_000, 2), same=(4_000_000, 3), noisy=(2_010_000, 3))
    there = side(gemm=(8_000_000, 10), copy=(100_000, 3), same=(4_000_000, 3), noisy=(2_000_000, 3), only=(500_000, 1))
    rows = [row for row in _differences(here, there) if row.what in {*here.breakdown.kernels, *there.breakdown.kernels}]
    assert [(row.what, row.difference_ms, _number(row)) for row in rows] == [
        ("gemm", 1.0, "10"),
        ("only", -0.5, "1/0"),
        ("copy", 0.0, "3/2"),
    ]


def test_what_differs_by_less_than_a_thousandth_of_a_step_is_left_out() -> None:
    longer = Explanation(breakdown=on_ranks((step(10.01, 1, 0, 0),)), measured_step_ms=11)
    assert _differences(longer, side()) == []


def test_a_side_that_the_profiler_slowed_is_named() -> None:
    explanation = Explanation(breakdown=on_ranks((step(10, 1, 0, 0),)), measured_step_ms=8)
    said = " ".join(_slowed("without", explanation))
    assert said.startswith("without: 3 ms longer than measured, because the profiler slows the host: ")
    assert _slowed("with", side()) == []
