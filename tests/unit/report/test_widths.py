"""Every table of pytest perf, with the longest names of the matrix: no line over 100 characters without -v."""

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.launch.other_side import Interpreter
from fixtures.machine.gpu_state import LaunchState, Reading
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.plain_text import WIDTH
from fixtures.matrix.transfers import TRANSFERS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.measurement import Measurement, TimedLaunch, Transfers
from fixtures.records.schema import EnvironmentRecord
from fixtures.report.columns import shown_columns
from fixtures.report.config_columns import COLUMNS
from fixtures.report.gradients import Outcome
from fixtures.report.gradients import report_lines as gradients_lines
from fixtures.report.profiles import breakdown_lines
from fixtures.report.progress import left_in_words, line_of
from fixtures.report.table import against_lines, report_lines
from fixtures.report.under_the_table import bandwidth_lines
from fixtures.session.ab_launches import ABResult
from fixtures.session.explanation import explanation_of
from fixtures.session.run_state import Run
from fixtures.stats.verdict import Verdict
from tests.builders import SETTINGS, case_of, effect_of, launch, measured, report_of
from tests.h200 import POWERSGD

OTHER = Interpreter(
    executable=Path("/opt/other/bin/python"),
    path=(),
    python="3.12.3",
    torch="2.11.0+cu130",
    cuda="13.0",
    label="",
    files={"my_job": "/src/my_job.py"},
)
SLOWER = Verdict(
    word="slower", change_percent=125.04, threshold_percent=1.2, p_value=0.001, history=3, reason="slower by 125 %"
)
HOT = Reading(sm_mhz=1980, max_sm_mhz=1980, reasons=())


def busy(config: str) -> Measurement:
    """Three launches of three digits of ms that spread by 15 %, on GPUs at a lower clock, of 17.6 GB on the wire."""
    state = LaunchState(before=(HOT,), after=(replace(HOT, sm_mhz=1410),), lasted_s=4)
    one = replace(
        launch(0.75312),
        gpu_state=state,
        wire_bytes_per_step=17_565_000_000,
        peak_memory_bytes=78_000_000_000,
        phase_s={"backward": 0.4, "input": 0.0},
        gradients=[(400_000_000, 4)] * 10,
    )
    return measured(config, 0, launches=(one, replace(one, step_s=(0.81,)), replace(one, step_s=(0.87,))))


@pytest.fixture(scope="module")
def everything() -> Run:
    """A run on eight GPUs in which every config was profiled, compared with another build, and slower; and the sizes of
    all-reduces."""
    run = Run(settings=replace(SETTINGS, against_build=OTHER))
    modules = {"my_job": "/src/my_job.py"}
    run.environment = EnvironmentRecord(modules=modules, torch="2.12.0+cu130")
    run.other_environment = EnvironmentRecord(modules=modules, torch="2.11.0+cu130")
    explanation = explanation_of(POWERSGD, 97.82)
    for config in CONFIGS:
        m = busy(config)
        run.cases[f"perf/test_throughput.py::test_throughput[vit_l_32-8gpu-{config}]"] = case_of(
            measurement=m,
            verdict=SLOWER,
            explanation=explanation,
            pairs=ABResult(own=m, other=m, verdict=SLOWER, interval_percent=(-107.73, 126.26), took_s=60),
        )
    for collective in TRANSFERS.values():
        all_reduces = Transfers(
            transfer=collective,
            world=parse_world("8gpu"),
            interconnect=INTERCONNECTS["native"],
            launches=(TimedLaunch(step_s=(0.01,), fingerprint=launch(1).fingerprint),),
            link_gb_per_s=450,
        )
        run.cases[f"perf/test_collectives.py::test_collectives[8gpu-{collective.name}]"] = case_of(
            measurement=all_reduces, verdict=SLOWER
        )
    run.training_effects = [replace(effect_of(config, excess_percent=145.0), margin_percent=12.5) for config in CONFIGS]
    return run


def too_long(lines: list[str]) -> list[str]:
    """Of the lines of prose."""
    prose = (line for line in lines if not line.startswith("    ") and "pytest perf " not in line)
    return [line for line in prose if len(line) > WIDTH]


@pytest.mark.parametrize("section", ["report", "against", "breakdown", "bandwidth"])
def test_every_section_fits(everything: Run, section: str) -> None:
    printed = {
        "report": lambda: report_lines(everything, report_of(everything)),
        "against": lambda: against_lines(everything),
        "breakdown": lambda: breakdown_lines(everything),
        "bandwidth": lambda: bandwidth_lines(everything, report_of(everything)),
    }[section]()
    assert len(printed) > 5
    assert too_long(printed) == []
    assert max(map(len, printed)) > WIDTH - 40  # that these are tables that fill the terminal


def test_all_that_is_to_be_known_of_a_row_is_on_its_line(everything: Run) -> None:
    """Not wrapped, even with the longest name."""
    table = report_lines(everything, report_of(everything))
    (row,) = [line for line in table if line.startswith("powersgd_rank1_same_shape ")]
    assert {"316.2", "+0.0", "100.0", "125.0"} <= set(row.split())
    assert row.endswith("slower 125.0 %")


def test_the_table_of_gradients_fits() -> None:
    seen = [
        Outcome(test=f"test_gradients[{config}]", subjects=(f"hook {config}",), outcome=outcome, why="word " * 40)
        for config in CONFIGS
        for outcome in ("right", "wrong", "unsupported", "not run")
    ]
    assert too_long(gradients_lines(seen)) == []


@pytest.mark.parametrize("name", ["test_scaling[vit_tiny-2cpu-ddp]", f"test_buckets[{'n' * 60}]", "t" * 99])
@pytest.mark.parametrize("outcome", ["  108.91 ms/step  slower 125.0 %", f"skipped: {'word ' * 30}", "FAILED"])
def test_the_line_of_a_test_fits_while_the_run_goes_on(name: str, outcome: str) -> None:
    begin, texts = line_of(f"[117/338] {name}"[:WIDTH], outcome, "12 min 05 s left")
    first, *more = texts
    assert max(map(len, [begin + first, *more])) <= WIDTH
    assert (begin + " ".join(texts)).split()[2:] != []
    assert " ".join(outcome.split()) in " ".join((begin + " ".join(texts)).split())


def test_a_line_with_room_has_the_time_left_and_columns() -> None:
    short, long = (line_of(f"[1/9] {name}", "  108.91 ms/step  ok", "8 s left") for name in ("a" * 10, "b" * 40))
    assert [begin + text for begin, (text,) in (short, long)] == [
        f"[1/9] {'a' * 10}{' ' * 37}  108.91 ms/step  ok            8 s left",
        f"[1/9] {'b' * 40}{' ' * 7}  108.91 ms/step  ok            8 s left",
    ]


def test_each_column_has_another_header() -> None:
    headers = [column.header for column in COLUMNS]
    assert len(set(headers)) == len(headers)
    assert shown_columns(COLUMNS, []) == []


# The time left in words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (3, "under 10 s left"), (14, "5 to 20 s left"), (60, "40 to 85 s left"), (600, "7 to 15 min left")],
)
def test_the_ends_of_the_range_differ_twofold(seconds: float | None, words: str) -> None:
    assert left_in_words(seconds) == words
