"""Below each bandwidth curve: its latency and bandwidth."""

from dataclasses import replace

import pytest

from fixtures.matrix.transfers import TRANSFERS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.measurement import TimedLaunch, Transfers
from fixtures.report.under_the_table import bandwidth_lines
from fixtures.session.run_state import Run
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, report_of


def curve(*names: str, latency_s: float = 20e-6, gb_per_s: float = 200) -> list[str]:
    """The lines below ``bare ...`` of these transfers on eight GPUs."""
    run = Run(settings=replace(SETTINGS))
    for name in names:
        empty = Transfers(
            transfer=TRANSFERS[name], world=parse_world("8gpu"), interconnect=INTERCONNECTS["native"], launches=()
        )
        seconds = latency_s + empty.message_bytes / gb_per_s / 1e9
        launched = replace(empty, launches=(TimedLaunch(step_s=(seconds,)),))
        run.cases[f"perf/test_collectives.py::test_collectives[8gpu-{name}]"] = case_of(
            measurement=launched, verdict=judge([seconds], [])
        )
    return bandwidth_lines(run, report_of(run))


@pytest.mark.parametrize(
    ("kind", "says", "bus"), [("all_reduce", "all-reduce", 350), ("reduce_scatter", "reduce-scatter", 175)]
)
def test_latency_and_bandwidth_of_three_sizes_are_one_line(kind: str, says: str, bus: int) -> None:
    lines = curve(*(f"{kind}_{size}" for size in ("8b", "1mb", "256mb")))
    (fit,) = [line for line in lines if "latency" in line]
    assert fit == f"{says}: latency 20 us, bandwidth 200 GB/s (bus {bus}); fit over 3 sizes, up to 0 % off"


def test_two_sizes_have_no_fit_and_kinds_are_not_mixed() -> None:
    lines = curve("all_reduce_8b", "all_reduce_1mb", "all_gather_8b", "all_gather_1mb")
    assert [line for line in lines if line.startswith("bare ")] == [
        "bare all-reduces on 8gpu, native, float32",
        "bare all-gathers on 8gpu, native, float32",
    ]
    assert not any("latency" in line for line in lines)


def test_the_size_of_a_small_message_has_digits() -> None:
    sizes = {
        line.split()[0]: line.split()[1]
        for line in curve("all_reduce_8b", "all_gather_8b", "all_reduce_64kb")[2:]
        if line.startswith("all_")
    }
    assert sizes == {"all_reduce_8b": "0.000008", "all_gather_8b": "0.000032", "all_reduce_64kb": "0.07"}
