"""Advice and its predictions: examples and properties."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.matrix.configs import BY_DEFAULT, CONFIGS, find_config
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.transfers import ALL_REDUCE
from fixtures.matrix.worlds import parse_world
from fixtures.records.baselines import Recorded, read_history
from fixtures.records.differences import Snapshot
from fixtures.records.schema import EnvironmentRecord, TestRecord, json_of
from fixtures.report.advice_lines import advice_lines
from fixtures.session.explanation import Explanation
from fixtures.session.run_advice import Checked, advice_of, curve_for, figures_for
from fixtures.session.run_state import Judged, Run
from fixtures.stats.verdict import judge
from fixtures.trace.advice import Advice, Curve, Figure, Parts, advise, bucket_layout, exposed_ms
from tests.builders import SETTINGS, launch, measured
from tests.h200 import on_ranks, step

MB = 2**20
# 1 ms for 10 MB and for each 10 MB more, from 10 MB on.
STRAIGHT = Curve(points=((10 * MB, 0.001), (2000 * MB, 0.2)))
# 40 gradients of 10 MB: one bucket takes 40 ms, all of it exposed.
PARTS = Parts(
    step_ms=200, backward_alone_ms=100, exposed_communication_ms=40, copies_ms=4, gradients=((10 * MB, 4),) * 40
)
DDP = CONFIGS["ddp"]


def advice(
    parts: Parts,
    *configs: str,
    curve: Curve | None = STRAIGHT,
    now: str = "ddp",
    figures: dict[str, Figure] | None = None,
) -> dict[str | None, Advice]:
    """Config -> its advice."""
    return {one.config: one for one in advise(parts, CONFIGS[now], map(find_config, configs), curve, figures)}


# The curve


def test_a_curve_interpolates_linearly_between_points() -> None:
    curve = Curve(points=((100, 1.0), (300, 2.0), (1000, 9.0)))
    assert [curve.seconds(size) for size in (1, 100, 200, 300, 650, 2000)] == [1, 1, 1.5, 2, 5.5, 18]


points = st.lists(st.tuples(st.integers(1, 2**31), st.floats(1e-6, 10)), min_size=1, unique_by=lambda p: p[0])


@given(points=points, sizes=st.lists(st.integers(1, 2**31), min_size=2))
def test_a_rising_curve_stays_rising_and_passes_through_its_points(
    points: list[tuple[int, float]], sizes: list[int]
) -> None:
    rising = tuple(zip(sorted(size for size, _ in points), sorted(time for _, time in points), strict=True))
    curve = Curve(points=rising)
    assert [curve.seconds(size) for size, _ in rising] == pytest.approx([time for _, time in rising])
    read = [curve.seconds(size) for size in sorted(sizes)]
    assert all(before <= after * (1 + 1e-12) for before, after in pairwise(read))


# Buckets


def test_a_bucket_is_closed_when_it_reaches_its_cap() -> None:
    assert bucket_layout([4 * MB, 4 * MB, 4 * MB, 1 * MB], 8) == [8 * MB, 5 * MB]
    assert bucket_layout([4 * MB, 64 * MB, 4 * MB], 8) == [68 * MB, 4 * MB]  # never smaller than its largest
    assert bucket_layout([2 * MB, 20 * MB, 20 * MB, 2 * MB], None) == [2 * MB, 40 * MB, 2 * MB]  # 1 MB, then 25


@given(sizes=st.lists(st.integers(1, 10**8)), cap=st.one_of(st.none(), st.integers(1, 400)))
def test_buckets_hold_every_byte_and_all_but_the_last_are_full(sizes: list[int], cap: int | None) -> None:
    buckets = bucket_layout(sizes, cap)
    assert sum(buckets) == sum(sizes)
    assert all(bucket >= (cap or 1) * MB for bucket in buckets[:-1])


def test_only_the_last_all_reduce_is_exposed_when_all_keep_up() -> None:
    assert exposed_ms([1, 1, 1, 1], 100, [10, 10, 10, 10]) == 10
    assert exposed_ms([1, 1, 1, 1], 100, [40, 40, 40, 40]) == 25 + 4 * 40 - 100
    assert exposed_ms([1], 100, [40]) == 40
    assert exposed_ms([], 100, []) == 0


@given(times=st.lists(st.floats(0, 100), min_size=1), backward_ms=st.floats(0, 1000))
def test_exposed_time_is_at_least_the_last_all_reduce_and_at_most_all(times: list[float], backward_ms: float) -> None:
    exposed = exposed_ms([1] * len(times), backward_ms, times)
    assert times[-1] - 1e-9 <= exposed <= sum(times) + 1e-9


# Advice


def test_smaller_buckets_expose_only_the_last_one_and_a_view_saves_copies() -> None:
    found = advice(PARTS, "bucket_100mb")["bucket_100mb"]
    assert found.what == "smaller buckets"
    assert found.predicted_ms == pytest.approx(200 - (40 - 10) - 4, rel=1e-3)


def test_the_best_bucket_size_is_advised() -> None:
    latency = Curve(points=((1 * MB, 0.005), (2000 * MB, 0.2)))  # 10 MB take 6 ms, more than a fortieth of the backward
    buckets = ("bucket_10mb", "bucket_50mb", "bucket_100mb")
    assert list(advice(PARTS, *buckets, curve=latency)) == ["bucket_50mb"]


def test_larger_buckets_are_advised_if_each_costs_a_latency() -> None:
    latency = Curve(points=((1 * MB, 0.010), (2000 * MB, 0.2)))
    now = replace(CONFIGS["bucket_10mb"], name="now")
    found = advise(replace(PARTS, exposed_communication_ms=400), now, [CONFIGS["bucket_100mb"]], latency)
    assert [one.what for one in found] == ["larger buckets"]


def test_compression_halves_the_time_and_has_its_error() -> None:
    found = advice(PARTS, "bf16")["bf16"]
    assert found.predicted_ms == pytest.approx(200 - 20 - 4, rel=1e-3)
    assert (found.what, found.gradient_error) == ("bfloat16 compression", 2**-8)


def test_two_changes_are_advised_only_when_they_beat_one() -> None:
    both = ("bf16", "bf16-bucket_100mb")
    assert set(advice(PARTS, *both)) == set(both)
    slow_to_start = Curve(points=((200 * MB, 0.02), (2000 * MB, 0.2)))  # nothing is faster than 200 MB
    assert set(advice(PARTS, *both, curve=slow_to_start)) == {"bf16"}


def test_a_bucket_view_saves_the_copies() -> None:
    found = advice(PARTS, "bucket_view", "static_graph")
    assert found["bucket_view"].predicted_ms == pytest.approx(196)
    assert list(found) == ["bucket_view"]


def test_no_advice_saves_more_than_the_exposed_time() -> None:
    found = advice(replace(PARTS, exposed_communication_ms=10, copies_ms=0), "bucket_100mb")
    assert found["bucket_100mb"].gain_ms == pytest.approx(10 * 0.75, rel=1e-3)  # a quarter of each is left


def test_a_graph_is_advised_only_for_a_launch_bound_step() -> None:
    assert advice(replace(PARTS, starved_ms=50, launch_bound=True))[None].predicted_ms == 150
    assert advice(replace(PARTS, starved_ms=19, launch_bound=False)) == {}


def launch_bound(profiled_step_ms: float) -> Run:
    """ddp with steps of 100 ms; the device works for 60 ms of a profiled step and starves for the rest."""
    starved = replace(
        step(50, 5, 0, profiled_step_ms - 55), starved_ns=round(1e6 * (profiled_step_ms - 60)), ahead_ns=10
    )
    explanation = Explanation(breakdown=on_ranks((starved,)), measured_step_ms=100)
    run = Run(settings=SETTINGS)
    first = replace(launch(0.1), phase_s={"backward": 0.05})
    run.measured["perf/test_ddp"] = Judged(
        measurement=measured("ddp", 0, launches=(first,)), verdict=judge([0.1], []), explanation=explanation
    )
    return run


@pytest.mark.parametrize("profiled_step_ms", [108, 130, 300])
def test_a_graph_saves_no_more_than_the_measured_step_has(profiled_step_ms: float) -> None:
    (advised,) = advice_of(launch_bound(profiled_step_ms))
    (checked,) = advised.checked
    assert checked.advice.predicted_ms == pytest.approx(60)
    assert "    a CUDA graph of the step: 60.00 ms, gain +66.7 %, predicted" in advice_lines(
        launch_bound(profiled_step_ms)
    )


def test_loader_workers_are_advised_if_there_is_a_loader() -> None:
    parts = replace(PARTS, awaited_ms=30)
    assert advice(parts, now="feed_loader", curve=None)["feed_pinned"].predicted_ms == 170
    assert advice(parts, curve=None) == {}


@pytest.mark.parametrize("config", ["powersgd_rank1", "no_comm", "single", "feed_resident", "ddp", "static_graph"])
def test_a_config_without_a_prediction_or_a_change_is_not_advised(config: str) -> None:
    assert advice(PARTS, config) == {}


def test_without_a_curve_no_bucket_size_is_advised() -> None:
    assert advice(PARTS, "bucket_100mb", "bf16", curve=None) == {}


# Measurements


def test_a_config_that_was_measured_slower_is_not_advised() -> None:
    assert advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=199)}) == {}
    assert advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=210)}) == {}


def test_a_measurement_replaces_the_prediction() -> None:
    figures = {"bucket_100mb": Figure(step_ms=190), "bucket_50mb": Figure(step_ms=180)}
    (found,) = advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures).values()
    assert (found.config, found.expected_ms) == ("bucket_50mb", 180)
    assert found.gain_percent == pytest.approx(10)
    assert found.predicted_ms == pytest.approx(200 - (40 - 5) - 4, rel=0.02)


def test_a_measurement_in_a_record_is_scaled_by_the_current_config_in_the_same_record() -> None:
    (found,) = advice(PARTS, "bf16", figures={"bf16": Figure(step_ms=90, now_ms=100, record="0001_a.json")}).values()
    assert found.expected_ms == pytest.approx(180)


def test_errors_of_predictions_correct_unmeasured_configs_with_the_same_hook() -> None:
    """The prediction is 176 ms for bf16 and less with smaller buckets; bf16 took 10 ms more."""
    alone = advice(PARTS, "bf16-bucket_100mb")["bf16-bucket_100mb"].expected_ms
    figures = {"bf16": Figure(step_ms=186)}
    found = advice(PARTS, "bf16", "bf16-bucket_100mb", figures=figures)
    assert found["bf16-bucket_100mb"].expected_ms == pytest.approx(alone + 10, abs=0.1)


def test_an_alias_of_a_measured_config_is_not_predicted() -> None:
    figures = {"bf16": Figure(step_ms=190)}
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16", figures=figures)) == ["bf16"]
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16")) == ["bf16-bucket_2000mb"]


def test_a_prediction_must_promise_more_than_a_measurement() -> None:
    """With both caps, one bucket holds all gradients."""
    figures = {"bf16": Figure(step_ms=190)}
    assert list(advice(PARTS, "bf16-bucket_400mb", "bf16", figures=figures)) == ["bf16"]


def test_the_record_has_the_source_of_the_expected_time() -> None:
    of_record = Advice(
        what="",
        config="bf16",
        step_ms=200,
        predicted_ms=170,
        figure=Figure(step_ms=90, now_ms=100, record="0001_a.json"),
    )
    info = Checked(advice=of_record).to_record()
    assert (info.expected_ms, info.predicted_ms, info.measured_ms) == (180, 170, None)
    assert (info.recorded_ms, info.record) == (90, "0001_a.json")
    assert info.prediction_error_percent == pytest.approx(100 * (170 / 180 - 1))
    now = replace(of_record, figure=Figure(step_ms=180))
    info = Checked(advice=now, measured_ms=180).to_record()
    assert (info.expected_ms, info.measured_ms, info.recorded_ms, info.record) == (180, 180, None, None)
    info = Checked(advice=replace(of_record, figure=None)).to_record()
    assert (info.expected_ms, info.recorded_ms, info.prediction_error_percent) == (170, None, None)


def test_the_prediction_includes_the_kernels_of_a_hook() -> None:
    free = advice(PARTS, "bf16")["bf16"].predicted_ms
    # 105 million elements of 16 bytes read and written, at 1000 GB/s.
    found = advice(replace(PARTS, copied_gb_per_s=1000), "bf16", "bucket_100mb")
    assert found["bf16"].predicted_ms - free == pytest.approx(400 * MB / 4 * 16 / 1e9, rel=1e-6)
    assert found["bucket_100mb"] == advice(PARTS, "bucket_100mb")["bucket_100mb"]


ROOT = Path(__file__).parents[3]
TWO = "2x-nvidia-h200-nv18"
MEASURED = [CONFIGS[name] for name in CONFIGS if name in BY_DEFAULT]


def of_two_h200(config: str) -> tuple[Run, Parts]:
    """A run of this config on two H200s that repeats their newest record, with the records and, of the profiler, the
    exposed transfer of 0.50 ms."""
    history = read_history(ROOT / "baselines", TWO)
    of_fp32 = (one for one in history.values() if one.workload == "vit_l_32")
    newest = [one.last.info for one in of_fp32 if one.last and one.world == "2gpu"]
    infos = {info.config: json_of(info) for info in newest}
    times_s = infos[config]["launch_medians_s"]
    m = measured(config, 0, world="2gpu", launches=tuple(launch(time_s) for time_s in times_s))
    for size, seconds in OF_TWO.items():
        info = TestRecord(
            workload=ALL_REDUCE, world="2gpu", message_bytes=size, all_reduce_s=seconds, launch_medians_s=[seconds]
        )
        last = Snapshot(info=info, environment=EnvironmentRecord())
        history[f"perf/test_{size}"] = Recorded(workload=ALL_REDUCE, last=last)
    run = Run(settings=replace(SETTINGS, instance=TWO), history={TWO: history})
    run.measured["perf/test_now"] = Judged(measurement=m, verdict=judge(times_s, []))
    parts = Parts(
        step_ms=1e3 * m.seconds_per_step,
        backward_alone_ms=infos["no_comm"]["phases_ms"]["backward"],
        exposed_communication_ms=0.5,
        copies_ms=1.2,
        gradients=tuple((size, 4) for size in reversed(infos["bucket_10mb"]["bucket_bytes"])),
    )
    return run, parts


# All-reduces of two H200s: the record's canaries, and one of 2 GB at what NVLink carries.
OF_TWO = {10**6: 31e-6, 64 * 10**6: 244e-6, 2 * 10**9: 7.2e-3}


@pytest.mark.parametrize("config", ["ddp", "ddp_default"])
def test_on_two_h200s_no_config_is_advised_that_is_slower_in_the_records(config: str) -> None:
    run, parts = of_two_h200(config)
    (judged,) = run.judged.values()
    figures, curve = figures_for(run, judged.measurement), curve_for(run, judged.measurement)
    predicted = advise(parts, CONFIGS[config], MEASURED, curve)
    assert "bfloat16" in predicted[0].what  # what stood first before
    first = figures[predicted[0].config or ""]
    found = advise(parts, CONFIGS[config], MEASURED, curve, figures)
    assert found[0].config == "bucket_10mb"
    assert found[0].expected_ms == pytest.approx(86.49, abs=0.01)
    assert all(figures[one.config or ""].step_ms < 0.99 * parts.step_ms for one in found)
    if config == "ddp_default":
        assert first.step_ms > 1.02 * parts.step_ms
        assert [one.config for one in found] == ["bucket_10mb", "bucket_100mb"]


def test_the_figure_comes_from_the_newest_record_that_has_both_configs() -> None:
    run, _ = of_two_h200("ddp_default")
    (judged,) = run.judged.values()
    figure = figures_for(run, judged.measurement)["bf16-bucket_25mb"]
    assert figure.record == "0004_vit.json"
    assert (figure.step_ms, figure.now_ms) == pytest.approx((91.12, 88.33), abs=0.01)


def test_this_run_takes_precedence_over_the_records() -> None:
    run, _ = of_two_h200("ddp_default")
    (judged,) = run.judged.values()
    run.measured["perf/test_other"] = Judged(
        measurement=measured("bucket_10mb", 10, world="2gpu"), verdict=judge([0.1], [])
    )
    figures = figures_for(run, judged.measurement)
    assert figures["bucket_10mb"].step_ms == pytest.approx(100)
    assert figures["bucket_10mb"].record is None


def test_a_record_without_the_current_config_gives_an_unscaled_time() -> None:
    run, _ = of_two_h200("ddp_default")
    (judged,) = run.judged.values()
    run.history[TWO] = {test: one for test, one in run.history[TWO].items() if "ddp_default" not in test}
    figure = figures_for(run, judged.measurement)["bf16"]
    assert (figure.now_ms, figure.expected_ms(88.33)) == (None, figure.step_ms)


def test_another_world_or_interconnect_has_no_figure() -> None:
    run, _ = of_two_h200("ddp_default")
    (judged,) = run.judged.values()
    assert "single" not in figures_for(run, judged.measurement)
    assert figures_for(run, replace(judged.measurement, interconnect=INTERCONNECTS["shm"])) == {}
    assert set(figures_for(run, replace(judged.measurement, world=parse_world("1gpu")))) == {"single", "ddp"}


def test_a_line_of_advice_names_the_source_of_its_time() -> None:
    run, parts = of_two_h200("ddp_default")
    ((test, judged),) = run.judged.items()
    first = replace(judged.measurement.launches[0], phase_s={"backward": 0.0569}, gradients=parts.gradients)
    explanation = Explanation(breakdown=on_ranks(*[(step(84.2, 0.5, 1.2, 2.4),)] * 2), measured_step_ms=88.3)
    m = replace(judged.measurement, launches=(first, *judged.measurement.launches[1:]))
    run.measured[test] = replace(judged, measurement=m, explanation=explanation)
    without = replace(launch(0.0857), phase_s={"backward": 0.0525})
    limit = measured("no_comm", 0, world="2gpu", launches=(without,))
    run.measured["perf/test_limit"] = Judged(measurement=limit, verdict=judge([0.0857], []))
    _, heading, *lines = advice_lines(run)
    assert heading == "advice for ddp_default of vit_l_32 on 2gpu, 88.33 ms/step, from the recorded all-reduces:"
    smaller, larger = re.split(r"\n(?=    \S)", "\n".join(lines))
    assert re.fullmatch(
        r"smaller buckets \(bucket_10mb\): 86\.49 ms, gain \+2\.1 %, measured \(86\.49 against 88\.33 in "
        r"0004_vit\.json; predicted [\d.]+\)",
        " ".join(smaller.split()),
    )
    assert larger.startswith("    larger buckets (bucket_100mb): 86.79 ms, gain +1.8 %, measured (86.79 against 88.33 ")


@given(
    exposed=st.floats(0, 150),
    copies=st.floats(0, 20),
    backward=st.floats(0, 100),
    points=points,
    gradients=st.lists(st.integers(1, 10**8).map(lambda n: (4 * n, 4)), min_size=1, max_size=50),
)
def test_no_advice_promises_more_than_the_measured_parts(
    exposed: float, copies: float, backward: float, points: list[tuple[int, float]], gradients: list[tuple[int, int]]
) -> None:
    parts = Parts(
        step_ms=200,
        backward_alone_ms=backward,
        exposed_communication_ms=exposed,
        copies_ms=copies,
        gradients=tuple(gradients),
    )
    for found in advise(parts, DDP, CONFIGS.values(), Curve(points=tuple(sorted(points)))):
        assert 2 <= found.gain_ms <= exposed + copies + 1e-6


def test_a_prediction_that_is_too_high_has_a_positive_error() -> None:
    of_100 = Advice(what="", config="bf16", step_ms=120, predicted_ms=110)
    assert Checked(advice=of_100, measured_ms=100).error_percent == pytest.approx(10)
