"""The part of the report on an A/B test: its words, NCCL's log, and what differs between the sides."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from fixtures.machine.nccl_log import Fingerprint
from fixtures.records.schema import EnvironmentRecord
from fixtures.report.table import _differences, _number, _slowed, against_lines
from fixtures.session.ab_launches import ABResult, judge_sides
from fixtures.session.explanation import Explanation, explanation_of
from fixtures.session.run_state import Run
from tests.builders import SETTINGS, case_of, launch, measured, unwrapped
from tests.h200 import on_ranks, step

Variables = Mapping[str, str]


def compared(own_s: list[float], other_s: list[float], given: dict[str, str], *logged: Variables | None) -> list[str]:
    """The lines of one test. logged: the variables in NCCL's log on each side; None: NCCL did not run."""
    own, other = (
        measured("ddp", 0, launches=tuple(replace(launch(time), fingerprint=log) for time in side))
        for side, log in zip(
            (own_s, other_s),
            (Fingerprint() if of is None else Fingerprint(nccl="2.27.5", variables=of) for of in logged),
            strict=True,
        )
    )
    verdict, interval = judge_sides(own_s, other_s)
    run = Run(settings=replace(SETTINGS, against_env=given))
    run.cases["perf/test_throughput.py::test_throughput[ddp]"] = case_of(
        measurement=own,
        verdict=verdict,
        pairs=ABResult(own=own, other=other, verdict=verdict, interval_percent=interval, took_s=60),
    )
    run.environment, run.other_environment = (EnvironmentRecord(variables=dict(side)) for side in ({}, given))
    return against_lines(run)


def printed(given: dict[str, str], without: Variables | None, with_: Variables | None) -> list[str]:
    return compared([1.6, 1.61, 1.62], [1.0, 1.01, 1.02], given, without, with_)


def test_the_sides_are_those_without_and_with_the_variable() -> None:
    _, heading, differences, _, titles, *_ = printed({"NCCL_MAX_CTAS": "4"}, {}, {"NCCL_MAX_CTAS": "4"})
    assert heading == "this environment against the same with NCCL_MAX_CTAS=4: 1 slower"
    assert differences == "differences between the two environments: NCCL_MAX_CTAS 4 -> unset"
    assert titles.split()[:5] == ["test", "with", "without", "without", "is"]


LO, RING, FOUR = {"NCCL_SOCKET_IFNAME": "lo"}, {"NCCL_ALGO": "Ring"}, {"NCCL_MAX_CTAS": "4"}
SET = "NCCL's log: {} set by environment to {}"
NOT_SHOWN = "NCCL's log does not show that {} took effect: check the name, and whether nccl.conf sets it"


@pytest.mark.parametrize(
    ("given", "without", "with_", "says"),
    [
        (FOUR, LO, LO | FOUR, [SET.format("NCCL_MAX_CTAS", "4")]),
        (
            RING | {"NCCL_MAX_CTASS": "4"},
            {},
            RING,
            [SET.format("NCCL_ALGO", "Ring"), NOT_SHOWN.format("NCCL_MAX_CTASS")],
        ),
        (RING, RING, RING, [NOT_SHOWN.format("NCCL_ALGO")]),
        (RING, None, None, ["NCCL did not run, so no log shows whether NCCL_ALGO took effect"]),
        ({"NCCL_ALGO": ""}, RING, {}, []),
        ({"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"}, {}, {}, []),
    ],
    ids=["read", "one misspelt", "on both sides", "CPU", "emptied", "not of NCCL"],
)
def test_what_nccls_log_shows_is_reported(
    given: dict[str, str], without: Variables | None, with_: Variables | None, says: list[str]
) -> None:
    lines = unwrapped(printed(given, without, with_))
    assert lines[3 : next(n for n, line in enumerate(lines) if line.startswith("test "))] == says


def test_launches_left_out_are_named_and_are_not_in_the_times() -> None:
    own_s = [1.0, 1.001, 1.0, 1.001, 1.0, 1.08]
    text = "\n".join(unwrapped(compared(own_s, [1.0, 1.001] * 3, {"NOTHING": "1"}, {}, {})))
    assert "this environment against the same with NOTHING=1: 1 ok (no difference of 1 %)\n" in text
    assert "without: 1 of 6 launches left out: 7.9 % slower than the others" in text
    assert re.search(r"test_throughput\[ddp\] +1000\.\d\d +1000\.\d\d ", text), text


def test_a_quick_ab_test_is_judged() -> None:
    quick = replace(SETTINGS, quick=True)
    assert not quick.judges
    assert replace(quick, against_env={"NOTHING": "1"}).judges


# The table of what differs between the two sides


def side(**kernels: tuple[int, int]) -> Explanation:
    """The same step of one rank, with these kernels: ns and number."""
    return explanation_of(on_ranks((replace(step(10, 1, 0, 0), kernels=kernels),)), 11)


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
    assert _differences(explanation_of(on_ranks((step(10.01, 1, 0, 0),)), 11), side()) == []


def test_a_side_that_the_profiler_slowed_is_named() -> None:
    said = " ".join(_slowed("without", explanation_of(on_ranks((step(10, 1, 0, 0),)), 8)))
    assert said.startswith("without: 3 ms longer than measured, because the profiler slows the host: ")
    assert _slowed("with", side()) == []
