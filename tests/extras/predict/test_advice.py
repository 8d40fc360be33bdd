"""Advice: measured configs are ranked, others are predicted; from made-up parts and from records of two H200s."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.extras.predict.plugin import (
    Advice,
    Advised,
    Figure,
    Parts,
    advice_lines,
    advice_of,
    advice_record,
    advise,
    figures_for,
    pytest_benchmark_update_json,
)
from fixtures.extras.predict.prediction import Link, all_reduces_of, line_through
from fixtures.matrix.configs import BY_DEFAULT, CONFIGS, find_config
from fixtures.matrix.recorded import json_of
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.baselines import read_history
from fixtures.records.measurement import Measurement
from fixtures.session.benchmark_storage import BENCHMARK_STORAGE
from fixtures.session.canaries import CanaryTimes
from fixtures.session.explanation import explanation_of
from fixtures.session.run_record import record_so_far
from fixtures.session.run_state import RUN, Run
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, known, launch, measured
from tests.command_line import ROOT
from tests.h200 import on_ranks, step
from tests.saved_records import Record

MB = 2**20
# 1 ms for each 10 MB.
STRAIGHT = Link(latency_s=0, bytes_per_s=10e3 * MB)
# 40 gradients of 10 MB: one bucket takes 40 ms, all of it exposed, after 4 ms of copies.
PARTS = Parts(step_ms=200, without_ms=156, backward_ms=100, copies_ms=4, gradients=((10 * MB, 4),) * 40)
DDP = CONFIGS["ddp"]


def advice(
    parts: Parts,
    *configs: str,
    line: Link | None = STRAIGHT,
    now: str = "ddp",
    figures: dict[str, Figure] | None = None,
) -> dict[str | None, Advice]:
    """Config -> its advice."""
    return {one.config: one for one in advise(parts, CONFIGS[now], map(find_config, configs), line, figures)}


# Predictions


def test_smaller_buckets_expose_only_the_last_one_and_a_view_saves_copies() -> None:
    found = advice(PARTS, "bucket_100mb")["bucket_100mb"]
    assert found.what == "smaller buckets"
    assert found.expected_ms == pytest.approx(200 - (40 - 10) - 4, rel=1e-3)
    # Alone it takes half of that.
    twice = replace(STRAIGHT, bytes_per_s=2 * STRAIGHT.bytes_per_s)
    found = advice(PARTS, "bucket_100mb", line=twice)["bucket_100mb"]
    assert found.expected_ms == pytest.approx(200 - (40 - 10) - 4, rel=1e-3)
    view = advice(PARTS, "bucket_view", "static_graph")
    assert view["bucket_view"].expected_ms == pytest.approx(196)
    assert list(view) == ["bucket_view"]


def test_measured_buckets_show_how_much_all_reduces_slow_compute() -> None:
    """Of 40 ms, 30 are hidden with buckets of 100 MB, and compute takes a fifth of that longer."""
    figures = {"bucket_100mb": Figure(step_ms=156 + 10 + 30 / 5)}
    found = advice(PARTS, "bucket_100mb", "bf16-bucket_50mb", figures=figures)
    assert found["bf16-bucket_50mb"].expected_ms == pytest.approx(156 + 2.5 + 17.5 / 5, rel=1e-3)


def test_the_size_of_buckets_is_advised_that_the_latency_asks_for() -> None:
    # 10 MB take 6 ms, more than their backward pass
    latency = Link(latency_s=0.005, bytes_per_s=STRAIGHT.bytes_per_s)
    buckets = ("bucket_10mb", "bucket_50mb", "bucket_100mb")
    assert list(advice(PARTS, *buckets, line=latency)) == ["bucket_50mb"]
    latency = replace(latency, latency_s=0.010)  # of each bucket
    now = replace(CONFIGS["bucket_10mb"], name="now")
    found = advise(replace(PARTS, step_ms=500), now, [CONFIGS["bucket_100mb"]], latency)
    assert [one.what for one in found] == ["larger buckets"]


def test_compression_halves_the_time_and_has_its_measured_error_or_its_bound() -> None:
    found = advice(PARTS, "bf16")["bf16"]
    assert found.expected_ms == pytest.approx(200 - 20 - 4, rel=1e-3)
    assert (found.what, found.gradient_error) == ("bfloat16 compression", 2**-8)
    figures = {"bf16": Figure(step_ms=180, gradient_error=2e-3)}
    assert advice(PARTS, "bf16", figures=figures)["bf16"].gradient_error == 2e-3
    assert advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=180)})["bf16"].gradient_error == 2**-8


def test_two_changes_are_advised_only_when_they_beat_one() -> None:
    both = ("bf16", "bf16-bucket_100mb")
    assert set(advice(PARTS, *both)) == set(both)
    # Nothing is hidden, whatever the buckets.
    assert set(advice(replace(PARTS, backward_ms=0), *both)) == {"bf16"}


def test_the_prediction_includes_the_kernels_of_a_hook() -> None:
    free = advice(PARTS, "bf16")["bf16"].expected_ms
    # 105 million elements of 16 bytes read and written, at 1000 GB/s.
    found = advice(replace(PARTS, copied_gb_per_s=1000), "bf16", "bucket_100mb")
    assert found["bf16"].expected_ms - free == pytest.approx(400 * MB / 4 * 16 / 1e9, rel=1e-6)
    assert found["bucket_100mb"] == advice(PARTS, "bucket_100mb")["bucket_100mb"]


def test_what_a_measured_hook_takes_longer_is_added_to_its_unmeasured_configs() -> None:
    """The prediction is 176 ms for bf16 and less with smaller buckets; bf16 took 10 ms more."""
    alone = advice(PARTS, "bf16-bucket_100mb")["bf16-bucket_100mb"].expected_ms
    found = advice(PARTS, "bf16", "bf16-bucket_100mb", figures={"bf16": Figure(step_ms=186)})
    assert found["bf16-bucket_100mb"].expected_ms == pytest.approx(alone + 10, abs=0.1)


def test_a_graph_is_advised_only_for_a_launch_bound_step_and_workers_only_for_a_loader() -> None:
    assert advice(replace(PARTS, starved_ms=50, launch_bound=True))[None].expected_ms == 150
    assert advice(replace(PARTS, starved_ms=19, launch_bound=False)) == {}
    parts = replace(PARTS, awaited_ms=30)
    assert advice(parts, now="feed_loader", line=None)["feed_pinned"].expected_ms == 170
    assert advice(parts, line=None) == {}


@pytest.mark.parametrize(
    "config", ["powersgd_rank1", "no_comm", "single", "feed_resident", "ddp", "static_graph", "graph-bucket_25mb"]
)
def test_a_config_without_a_prediction_or_a_change_is_not_advised(config: str) -> None:
    assert advice(PARTS, config) == {}


@pytest.mark.parametrize("parts", [PARTS, replace(PARTS, without_ms=None)])
def test_without_all_reduces_or_a_step_without_communication_only_what_was_measured_is_advised(parts: Parts) -> None:
    line = STRAIGHT if parts.without_ms is None else None
    figures = {"bucket_100mb": Figure(step_ms=190)}
    assert list(advice(parts, "bucket_100mb", "bf16", line=line, figures=figures)) == ["bucket_100mb"]


@given(
    without_ms=st.floats(1, 200),
    copies=st.floats(0, 20),
    backward=st.floats(0, 100),
    latency_s=st.floats(0, 0.01),
    gb_per_s=st.floats(0.1, 1000),
    gradients=st.lists(st.integers(1, 10**8).map(lambda n: (4 * n, 4)), min_size=1, max_size=50),
)
def test_no_step_is_predicted_to_be_shorter_than_the_one_without_communication(
    without_ms: float,
    copies: float,
    backward: float,
    latency_s: float,
    gb_per_s: float,
    gradients: list[tuple[int, int]],
) -> None:
    parts = Parts(
        step_ms=200, without_ms=without_ms, backward_ms=backward, copies_ms=copies, gradients=tuple(gradients)
    )
    line = Link(latency_s=latency_s, bytes_per_s=1e9 * gb_per_s)
    for found in advise(parts, DDP, CONFIGS.values(), line):
        assert without_ms <= found.expected_ms + 1e-6
        assert found.gain_percent > 1


# Measurements


def test_a_measurement_replaces_the_prediction_and_one_that_was_slower_is_not_advised() -> None:
    figures = {"bucket_100mb": Figure(step_ms=190), "bucket_50mb": Figure(step_ms=180)}
    (found,) = advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures).values()
    assert (found.config, found.expected_ms, found.figure) == ("bucket_50mb", 180, Figure(step_ms=180))
    assert found.gain_percent == pytest.approx(10)
    assert advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=199)}) == {}
    assert advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=210)}) == {}
    (found,) = advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=90, now_ms=100, record="0001_a.json")}).values()
    assert found.expected_ms == pytest.approx(180)


def test_an_alias_of_a_measured_config_is_not_predicted() -> None:
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16", figures={"bf16": Figure(step_ms=190)})) == ["bf16"]
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16")) == ["bf16-bucket_2000mb"]


def test_where_a_change_of_this_kind_was_measured_none_is_predicted() -> None:
    """50 MB are predicted to take less than the measured 100 MB."""
    figures = {"bucket_100mb": Figure(step_ms=190)}
    assert list(advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures)) == ["bucket_100mb"]
    figures = {"bucket_100mb": Figure(step_ms=210)}
    assert advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures) == {}


# The measurements from which advice is made: this run's, and those of records


def launch_bound(profiled_step_ms: float) -> Run:
    """ddp with steps of 100 ms; the device works for 60 ms of a profiled step and starves for the rest."""
    starved = replace(
        step(50, 5, 0, profiled_step_ms - 55), starved_ns=round(1e6 * (profiled_step_ms - 60)), ahead_ns=10
    )
    explanation = explanation_of(on_ranks((starved,)), 100)
    run = Run(settings=SETTINGS)
    first = replace(launch(0.1), phase_s={"backward": 0.05})
    run.cases["perf/test_ddp"] = case_of(
        measurement=measured("ddp", 0, launches=(first,)), verdict=judge([0.1], []), explanation=explanation
    )
    return run


def advice_in(run: Run) -> list[Advised]:
    return advice_of(run, record_so_far(run, None))


def all_reduces(run: Run, world: str) -> Link | None:
    return line_through(all_reduces_of(record_so_far(run, None), "native", [world]))


@pytest.mark.parametrize("profiled_step_ms", [108, 130, 300])
def test_a_graph_saves_no_more_than_the_measured_step_has(profiled_step_ms: float) -> None:
    run = launch_bound(profiled_step_ms)
    ((advice,),) = [advised.advice for advised in advice_in(run)]
    assert advice.expected_ms == pytest.approx(60)
    assert "    a CUDA graph of the step: 60.00 ms, gain +66.7 %, predicted" in advice_lines(advice_in(run))
    record: Record = {"benchmarks": [{"fullname": "perf/test_ddp", "extra_info": {}}]}
    config: Any = SimpleNamespace(stash={RUN: run, BENCHMARK_STORAGE: None})
    pytest_benchmark_update_json(config, record)
    ((in_record,),) = [one["extra_info"]["advice"] for one in record["benchmarks"]]
    assert in_record["predicted_ms"] == pytest.approx(60)


@pytest.mark.parametrize(("idle_ms", "says"), [(40, "; but 40 % of the step is idle: look for a slow loader"), (5, "")])
def test_where_nothing_gains_the_idle_part_is_the_advice(idle_ms: float, says: str) -> None:
    explanation = explanation_of(on_ranks((step(95 - idle_ms, 5, 0, idle_ms),)), 100)
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
    recorded = json_of(advice_record(Advice(what="", config="bf16", step_ms=200, expected_ms=180, figure=figure)))
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
    assert known(all_reduces(run, "2gpu")).seconds(64e6) == pytest.approx(244e-6)
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
