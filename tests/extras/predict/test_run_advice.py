"""The measurements from which advice is made: this run's, and those of records."""

from dataclasses import replace

import pytest

from fixtures.extras.predict.advice import Advice, Figure, Parts, advise
from fixtures.extras.predict.plugin import advice_lines
from fixtures.extras.predict.prediction import all_reduces_of
from fixtures.extras.predict.run_advice import Advised, advice_of, advice_record, figures_for
from fixtures.matrix.configs import BY_DEFAULT, CONFIGS
from fixtures.matrix.recorded import json_of
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.baselines import read_history
from fixtures.records.measurement import Measurement
from fixtures.session.canaries import CanaryTimes
from fixtures.session.explanation import Explanation
from fixtures.session.run_record import record_so_far
from fixtures.session.run_state import Run
from fixtures.stats.latency_bandwidth import LinkLine, line_through
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, launch, measured
from tests.command_line import ROOT
from tests.h200 import on_ranks, step


def launch_bound(profiled_step_ms: float) -> Run:
    """ddp with steps of 100 ms; the device works for 60 ms of a profiled step and starves for the rest."""
    starved = replace(
        step(50, 5, 0, profiled_step_ms - 55), starved_ns=round(1e6 * (profiled_step_ms - 60)), ahead_ns=10
    )
    explanation = Explanation(breakdown=on_ranks((starved,)), measured_step_ms=100)
    run = Run(settings=SETTINGS)
    first = replace(launch(0.1), phase_s={"backward": 0.05})
    run.cases["perf/test_ddp"] = case_of(
        measurement=measured("ddp", 0, launches=(first,)), verdict=judge([0.1], []), explanation=explanation
    )
    return run


def advice_in(run: Run) -> list[Advised]:
    return advice_of(run, record_so_far(run, None))


def all_reduces(run: Run, world: str) -> LinkLine | None:
    return line_through(all_reduces_of(record_so_far(run, None), "native", [world]))


@pytest.mark.parametrize("profiled_step_ms", [108, 130, 300])
def test_a_graph_saves_no_more_than_the_measured_step_has(profiled_step_ms: float) -> None:
    run = launch_bound(profiled_step_ms)
    ((advice,),) = [advised.advice for advised in advice_in(run)]
    assert advice.expected_ms == pytest.approx(60)
    assert "    a CUDA graph of the step: 60.00 ms, gain +66.7 %, predicted" in advice_lines(advice_in(run))


@pytest.mark.parametrize(("idle_ms", "says"), [(40, "; but 40 % of the step is idle: look for a slow loader"), (5, "")])
def test_where_nothing_gains_the_idle_part_is_the_advice(idle_ms: float, says: str) -> None:
    explanation = Explanation(breakdown=on_ranks((step(95 - idle_ms, 5, 0, idle_ms),)), measured_step_ms=100)
    run = Run(settings=SETTINGS)
    run.cases["perf/test_ddp"] = case_of(
        measurement=measured("ddp", 10), verdict=judge([0.1], []), explanation=explanation
    )
    _, _, *lines = advice_lines(advice_in(run))
    nothing = "no change of communication is measured or predicted to gain more than 1 %"
    assert " ".join(" ".join(lines).split()).startswith(nothing + says)


@pytest.mark.parametrize(
    ("figure", "sources"),
    [
        (Figure(step_ms=90, now_ms=100, record="0001_a.json"), {"recorded_ms": 90, "record": "0001_a.json"}),
        (Figure(step_ms=180), {"measured_ms": 180}),
        (None, {"predicted_ms": 180}),
    ],
)
def test_the_record_has_the_source_of_the_expected_time(figure: Figure | None, sources: dict[str, object]) -> None:
    advice = Advice(what="", config="bf16", step_ms=200, expected_ms=180, figure=figure)
    recorded = json_of(advice_record(advice))
    names = ("recorded_ms", "record", "measured_ms", "predicted_ms")
    assert {name: recorded[name] for name in names if recorded.get(name) is not None} == sources
    assert recorded["expected_ms"] == 180


TWO = "2x-nvidia-h200-nv18"
MEASURED = [CONFIGS[name] for name in CONFIGS if name in BY_DEFAULT]


def of_two_h200(config: str) -> tuple[Run, Measurement, Parts]:
    """A run of this config on two H200s that repeats their newest record, with the records; its measurement."""
    history = read_history(ROOT / "baselines", TWO)
    of_fp32 = (one for one in history.values() if one.workload == "vit_l_32")
    newest = [one.last.info for one in of_fp32 if one.last and one.world == "2gpu"]
    infos = {info.config: json_of(info) for info in newest}
    times_s = infos[config]["launch_medians_s"]
    m = measured(config, 0, world="2gpu", launches=tuple(launch(time_s) for time_s in times_s))
    run = Run(settings=replace(SETTINGS, instance=TWO), history={TWO: history})
    run.cases["perf/test_now"] = case_of(measurement=m, verdict=judge(times_s, []))
    before_s = {"all_reduce_1mb": [31e-6], "all_reduce_64mb": [244e-6], "kernel_launches_1000": [2e-3]}
    run.canaries.times["native"] = CanaryTimes(world="2gpu", before_s=before_s)
    parts = Parts(
        step_ms=1e3 * m.seconds_per_step,
        without_ms=1e3 * infos["no_comm"]["launch_medians_s"][0],
        backward_ms=infos["no_comm"]["phases_ms"]["backward"],
        copies_ms=1.2,
        gradients=tuple((size, 4) for size in reversed(infos["bucket_10mb"]["bucket_bytes"])),
    )
    return run, m, parts


@pytest.mark.parametrize(
    ("config", "advised"), [("ddp", ["bucket_10mb"]), ("ddp_default", ["bucket_10mb", "bucket_50mb"])]
)
def test_on_two_h200s_no_config_is_advised_that_is_slower_in_the_records(config: str, advised: list[str]) -> None:
    run, m, parts = of_two_h200(config)
    figures = figures_for(run, m)
    found = advise(parts, CONFIGS[config], MEASURED, all_reduces(run, "2gpu"), figures)
    assert [one.config for one in found][: len(advised)] == advised
    assert found[0].expected_ms == pytest.approx(86.35, abs=0.01)
    assert all(figures[one.config or ""].step_ms < 0.99 * parts.step_ms for one in found)


def test_on_two_h200s_what_was_not_measured_is_predicted_within_two_percent() -> None:
    """From ddp, ddp_default, no_comm and the canaries."""
    run, m, parts = of_two_h200("ddp")
    figures, line = figures_for(run, m), all_reduces(run, "2gpu")
    predicted = 0
    for config in (CONFIGS[f"bucket_{size}mb"] for size in (10, 25, 50, 100)):
        among = [config, CONFIGS["ddp_default"]]
        by_name = {one.config: one for one in advise(parts, CONFIGS["ddp"], among, line, {})}
        if config.name in by_name:
            predicted += 1
            assert by_name[config.name].expected_ms == pytest.approx(figures[config.name].step_ms, rel=0.02)
    assert predicted >= 3


def test_canaries_of_another_world_are_no_all_reduces_of_this_one() -> None:
    run, _, _ = of_two_h200("ddp")
    line = all_reduces(run, "2gpu")
    assert line is not None
    assert line.seconds(64e6) == pytest.approx(244e-6)
    assert all_reduces(run, "8gpu") is None


def test_the_figure_comes_from_this_run_or_the_newest_record_that_has_both_configs() -> None:
    run, m, _ = of_two_h200("ddp_default")
    figure = figures_for(run, m)["bf16-bucket_25mb"]
    assert figure.record == "0006_h200_w6.json"
    assert (figure.step_ms, figure.now_ms) == pytest.approx((90.78, 88.12), abs=0.01)
    other = measured("bucket_10mb", 10, world="2gpu")
    run.cases["perf/test_other"] = case_of(measurement=other, verdict=judge([0.1], []))
    figure = figures_for(run, m)["bucket_10mb"]
    assert figure.step_ms == pytest.approx(100)
    assert figure.record is None


def test_a_record_without_the_current_config_is_unscaled_and_another_world_or_interconnect_has_no_figure() -> None:
    run, m, _ = of_two_h200("ddp_default")
    assert "single" not in figures_for(run, m)
    assert figures_for(run, replace(m, interconnect=INTERCONNECTS["shm"])) == {}
    assert set(figures_for(run, replace(m, world=parse_world("1gpu")))) == {"single", "ddp"}
    run.history[TWO] = {test: one for test, one in run.history[TWO].items() if "ddp_default" not in test}
    figure = figures_for(run, m)["bf16"]
    assert (figure.now_ms, figure.expected_ms(88.33)) == (None, figure.step_ms)


def test_a_line_of_advice_names_the_source_of_its_time() -> None:
    run, m, parts = of_two_h200("ddp_default")
    ((test, case),) = run.judged.items()
    launches = [replace(one, phase_s={"backward": 0.0569}, gradients=list(parts.gradients)) for one in m.launches]
    explanation = Explanation(breakdown=on_ranks(*[(step(84.2, 0.5, 1.2, 2.4),)] * 2), measured_step_ms=88.3)
    m = replace(m, launches=tuple(launches))
    run.cases[test] = case_of(measurement=m, verdict=case.verdict, explanation=explanation)
    without = replace(launch(0.0857), phase_s={"backward": 0.0525})
    limit = measured("no_comm", 0, world="2gpu", launches=(without,))
    run.cases["perf/test_limit"] = case_of(measurement=limit, verdict=judge([0.0857], []))
    _, heading, *lines = advice_lines(advice_in(run))
    assert heading == "advice for ddp_default of vit_l_32 on 2gpu, 88.12 ms/step:"
    assert " ".join(" ".join(lines).split()).startswith(
        "smaller buckets (bucket_10mb): 86.35 ms, gain +2.1 %, measured (86.35 against 88.12 in 0006_h200_w6.json) "
        "larger buckets (bucket_50mb): 86.73 ms, gain +1.6 %, measured (86.73 against 88.12 in 0006_h200_w6.json)"
    )
