"""Advice and its predictions: by hand, by properties, against DDP's own buckets, and as a user sees them."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.explain.advice import Advice, Curve, Parts, advise, bucket_layout, exposed_ms
from fixtures.judge.advising import Checked, advice_of
from fixtures.judge.explanation import Explanation
from fixtures.judge.run import Judged, Run
from fixtures.judge.verdict import judge
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.rank_sets import RankSets
from fixtures.report.advice import advice_lines
from tests.command_line import QUICK, Outcome, pytest_perf
from tests.h200 import on_ranks, step
from tests.injected import INJECT
from tests.test_comparison_and_table import SETTINGS, launch, measured

MB = 2**20
# 1 ms for 10 MB and for each 10 MB more, from 10 MB on.
STRAIGHT = Curve(points=((10 * MB, 0.001), (2000 * MB, 0.2)))
# 40 gradients of 10 MB: one bucket takes 40 ms, all of it exposed.
PARTS = Parts(
    step_ms=200, backward_alone_ms=100, exposed_communication_ms=40, copies_ms=4, gradients=((10 * MB, 4),) * 40
)
DDP = CONFIGS["ddp"]


def advice(parts: Parts, *configs: str, curve: Curve | None = STRAIGHT, now: str = "ddp") -> dict[str | None, Advice]:
    """Config -> the advice."""
    return {one.config: one for one in advise(parts, CONFIGS[now], map(find_config, configs), curve)}


# The curve


def test_between_two_points_lies_a_line() -> None:
    curve = Curve(points=((100, 1.0), (300, 2.0), (1000, 9.0)))
    assert [curve.seconds(size) for size in (1, 100, 200, 300, 650, 2000)] == [1, 1, 1.5, 2, 5.5, 18]


points = st.lists(st.tuples(st.integers(1, 2**31), st.floats(1e-6, 10)), min_size=1, unique_by=lambda p: p[0])


@given(points=points, sizes=st.lists(st.integers(1, 2**31), min_size=2))
def test_a_curve_that_rises_is_read_rising_through_its_points(
    points: list[tuple[int, float]], sizes: list[int]
) -> None:
    rising = tuple(zip(sorted(size for size, _ in points), sorted(time for _, time in points), strict=True))
    curve = Curve(points=rising)
    assert [curve.seconds(size) for size, _ in rising] == pytest.approx([time for _, time in rising])
    read = [curve.seconds(size) for size in sorted(sizes)]
    assert all(before <= after * (1 + 1e-12) for before, after in pairwise(read))


# Buckets


def test_a_bucket_is_closed_when_it_has_reached_its_cap() -> None:
    assert bucket_layout([4 * MB, 4 * MB, 4 * MB, 1 * MB], 8) == [8 * MB, 5 * MB]
    assert bucket_layout([4 * MB, 64 * MB, 4 * MB], 8) == [68 * MB, 4 * MB]  # never smaller than its largest
    assert bucket_layout([2 * MB, 20 * MB, 20 * MB, 2 * MB], None) == [2 * MB, 40 * MB, 2 * MB]  # 1 MB, then 25


@given(sizes=st.lists(st.integers(1, 10**8)), cap=st.one_of(st.none(), st.integers(1, 400)))
def test_buckets_hold_every_byte_and_all_but_the_last_are_full(sizes: list[int], cap: int | None) -> None:
    buckets = bucket_layout(sizes, cap)
    assert sum(buckets) == sum(sizes)
    assert all(bucket >= (cap or 1) * MB for bucket in buckets[:-1])


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "bucket_10mb", "static_graph"])
def test_the_layout_is_that_of_ddp(two_ranks: RankSets, config: str) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    arguments = {"workload": "vit_tiny", "config": config, "world": "2cpu", "steps": 1, "warmup": 4, "compare": False}
    answer = ranks.run(parse_world("2cpu"), "fixtures.ranks.training:train", arguments, doing=config)[0]
    layout = bucket_layout([size for size, _ in reversed(answer["gradients"])], CONFIGS[config].bucket_cap_mb)
    assert len(layout) == len(answer["bucket_bytes"])
    assert layout == pytest.approx(answer["bucket_bytes"], rel=0.05)  # gradients of a layer may change places


def test_only_the_last_all_reduce_is_exposed_when_all_keep_up() -> None:
    assert exposed_ms([1, 1, 1, 1], 100, [10, 10, 10, 10]) == 10
    assert exposed_ms([1, 1, 1, 1], 100, [40, 40, 40, 40]) == 25 + 4 * 40 - 100
    assert exposed_ms([1], 100, [40]) == 40
    assert exposed_ms([], 100, []) == 0


@given(times=st.lists(st.floats(0, 100), min_size=1), backward_ms=st.floats(0, 1000))
def test_exposed_is_at_least_the_last_and_at_most_all(times: list[float], backward_ms: float) -> None:
    exposed = exposed_ms([1] * len(times), backward_ms, times)
    assert times[-1] - 1e-9 <= exposed <= sum(times) + 1e-9


# Advice


def test_smaller_buckets_leave_the_last_one_and_a_view_its_copies() -> None:
    found = advice(PARTS, "bucket_100mb")["bucket_100mb"]
    assert found.what == "smaller buckets"
    assert found.predicted_ms == pytest.approx(200 - (40 - 10) - 4, rel=1e-3)


def test_the_best_bucket_size_is_advised() -> None:
    latency = Curve(points=((1 * MB, 0.005), (2000 * MB, 0.2)))  # 10 MB take 6 ms, more than a fortieth of the backward
    buckets = ("bucket_10mb", "bucket_50mb", "bucket_100mb")
    assert list(advice(PARTS, *buckets, curve=latency)) == ["bucket_50mb"]


def test_larger_buckets_are_advised_where_each_costs_a_latency() -> None:
    latency = Curve(points=((1 * MB, 0.010), (2000 * MB, 0.2)))
    now = replace(CONFIGS["bucket_10mb"], name="now")
    found = advise(replace(PARTS, exposed_communication_ms=400), now, [CONFIGS["bucket_100mb"]], latency)
    assert [one.what for one in found] == ["larger buckets"]


def test_compression_halves_the_time_and_says_its_error() -> None:
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


def test_no_more_is_saved_than_is_exposed() -> None:
    found = advice(replace(PARTS, exposed_communication_ms=10, copies_ms=0), "bucket_100mb")
    assert found["bucket_100mb"].gain_ms == pytest.approx(10 * 0.75, rel=1e-3)  # a quarter of each is left


def test_a_graph_is_advised_to_a_launch_bound_step_only() -> None:
    assert advice(replace(PARTS, starved_ms=50, launch_bound=True))[None].predicted_ms == 150
    assert advice(replace(PARTS, starved_ms=19, launch_bound=False)) == {}


def launch_bound(profiled_step_ms: float) -> Run:
    """ddp of 100 ms a step, whose device works 60 ms and starves for the rest of a step while it is profiled."""
    starved = replace(
        step(50, 5, 0, profiled_step_ms - 55), starved_ns=round(1e6 * (profiled_step_ms - 60)), ahead_ns=10
    )
    explanation = Explanation(breakdown=on_ranks((starved,)), unprofiled_step_ms=100)
    run = Run(settings=SETTINGS)
    first = replace(launch(0.1), phase_s={"backward": 0.05})
    run.judged["perf/test_ddp"] = Judged(
        measurement=measured("ddp", 0, launches=(first,)), verdict=judge([0.1], []), explanation=explanation
    )
    return run


@pytest.mark.parametrize("profiled_step_ms", [108, 130, 300])
def test_a_graph_saves_no_more_than_the_unprofiled_step_has(profiled_step_ms: float) -> None:
    (advised,) = advice_of(launch_bound(profiled_step_ms))
    (checked,) = advised.checked
    assert checked.advice.predicted_ms == pytest.approx(60)
    assert checked.extra_info()["rough"] == (profiled_step_ms > 110)


def test_what_a_graph_saves_of_a_rough_breakdown_is_said_to_be_rough() -> None:
    assert "    a CUDA graph of the step: 60.00 ms a step, -40.0 %" in advice_lines(launch_bound(105))
    assert "    a CUDA graph of the step (rough): 60.00 ms a step, -40.0 %" in advice_lines(launch_bound(130))


def test_loader_workers_are_advised_where_there_is_a_loader() -> None:
    parts = replace(PARTS, awaited_ms=30)
    assert advice(parts, now="feed_loader", curve=None)["feed_pinned"].predicted_ms == 170
    assert advice(parts, curve=None) == {}


@pytest.mark.parametrize("config", ["powersgd_rank1", "no_comm", "single", "feed_resident", "ddp", "static_graph"])
def test_what_cannot_be_predicted_or_changes_nothing_is_no_advice(config: str) -> None:
    assert advice(PARTS, config) == {}


def test_without_a_curve_nothing_is_said_of_buckets() -> None:
    assert advice(PARTS, "bucket_100mb", "bf16", curve=None) == {}


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


def test_a_prediction_that_is_too_high_is_off_by_a_positive_share() -> None:
    of_100 = Advice(what="", config="bf16", step_ms=120, predicted_ms=110)
    assert Checked(advice=of_100, measured_ms=100).error_percent == pytest.approx(10)


# As a user sees it

FILES = ("perf/test_throughput.py", "perf/test_collectives.py")
WIDE = ("--workload=tests.injected:wide", "--workload=tests.injected:late")
ASKED = "1mb or 16mb or (wide and (ddp] or ddp_default] or bf16] or no_comm])) or (late and (ddp] or no_comm]))"


def perf(storage: Path, *arguments: str) -> Outcome:
    return pytest_perf(storage, *arguments, *QUICK, "--explain=all", variables={INJECT: "1"})


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """64 MB of gradients in a step that does little else, and a step in which rank 1 is late, with all-reduces."""
    storage = tmp_path_factory.mktemp("baselines")
    return storage, perf(storage, *FILES, *WIDE, "-k", ASKED, "--benchmark-save=first")


def info_of(storage: Path, test: str) -> dict[str, Any]:
    (file,) = storage.rglob("*.json")
    infos = {one["name"]: one["extra_info"] for one in json.loads(file.read_text())["benchmarks"]}
    info: dict[str, Any] = infos[test]
    return info


def test_compression_is_advised_and_the_prediction_compared(advised: tuple[Path, Outcome]) -> None:
    _, found, below = advised[1].output.partition("advice for ddp of wide on 2cpu, ")
    assert found, advised[1].output
    assert below.partition(":\n")[0].endswith("predicted from its breakdown and the all-reduces of this run")
    assert re.search(
        r"    bfloat16 compression \(bf16\): .*; measured .* off by [+-].*; gradient error \de-03\n", below
    )


def test_what_pytorch_does_by_default_is_advised_too(advised: tuple[Path, Outcome]) -> None:
    _, _, below = advised[1].output.partition("advice for ddp_default of wide on 2cpu, ")
    assert "bfloat16 compression" in below.partition("advice for ")[0], advised[1].output


def test_the_record_has_the_prediction_beside_the_measurement(advised: tuple[Path, Outcome]) -> None:
    ddp, bf16 = (info_of(advised[0], f"test_throughput[wide-2cpu-{config}]") for config in ("ddp", "bf16"))
    (compression,) = (one for one in ddp["advice"] if one["config"] == "bf16")
    assert compression["measured_ms"] == pytest.approx(1e3 / bf16["steps_per_s"])
    off = compression["predicted_ms"] / compression["measured_ms"] - 1
    assert compression["prediction_error_percent"] == pytest.approx(100 * off)


def test_the_three_ways_stand_in_the_record_and_side_by_side(advised: tuple[Path, Outcome]) -> None:
    info = info_of(advised[0], "test_throughput[wide-2cpu-ddp]")
    ways = info["exposed_communication_ms"]
    assert list(ways) == ["profiler", "no_sync", "no_comm"]
    apart_ms = max(ways.values()) - min(ways.values())
    assert info["exposed_communication_disagreement_percent"] == pytest.approx(
        100 * apart_ms / max(map(abs, ways.values()))
    )
    _, _, below = advised[1].output.partition("what communication costs a step of wide on 2cpu")
    (row,) = [line for line in below.splitlines()[:8] if line.startswith("ddp ")]
    assert f"{ways['no_sync']:.2f} " in row
    assert f"{ways['no_comm']:.2f} " in row


def test_where_the_ways_disagree_the_parts_over_no_comm_are_said(advised: tuple[Path, Outcome]) -> None:
    _, _, below = advised[1].output.partition("what communication costs a step of late on 2cpu")
    assert re.search(
        r"\nddp: -?[\d.]+ ms a step more than no_comm( \(rough\))?: [\d.]+ exposed communication, ", below
    ), below


def test_buckets_of_many_tests_are_not_listed_but_it_is_said_how_to_see_them(advised: tuple[Path, Outcome]) -> None:
    assert "each collective of a step with its bucket: run one test alone" in advised[1].output
    assert "the collectives of a step of" not in advised[1].output
    assert info_of(advised[0], "test_throughput[wide-2cpu-ddp]")["ledger"]["one_to_one"]


def test_the_record_has_the_parts_over_no_comm_which_add_up_to_the_step(advised: tuple[Path, Outcome]) -> None:
    ddp, no_comm = (info_of(advised[0], f"test_throughput[late-2cpu-{config}]") for config in ("ddp", "no_comm"))
    cost = ddp["cost_of_communication"]
    assert cost["config"] == "no_comm"
    assert cost["step_ms"] == pytest.approx(ddp["profiled_step_ms"] - no_comm["profiled_step_ms"], abs=1e-6)
    parts = [cost[f"{part}_ms"] for part in ddp["breakdown_ms"]]
    assert sum(parts) == pytest.approx(cost["step_ms"], abs=1e-6)
    assert no_comm["cost_of_communication"] is None
    assert list(no_comm["exposed_communication_ms"]) == ["profiler", "no_sync", "no_comm"]
    assert no_comm["exposed_communication_ms"]["no_comm"] is None


def test_the_newest_record_has_the_curve_when_this_run_has_none(advised: tuple[Path, Outcome]) -> None:
    arguments = ("perf/test_throughput.py", WIDE[0], "-k", "wide and ddp]", "--min-slowdown=1e6")
    outcome = perf(advised[0], *arguments)
    assert "predicted from its breakdown and the recorded all-reduces:" in outcome.output, outcome.output
    assert "bfloat16 compression (bf16): " in outcome.output


def test_a_starved_loader_is_told_to_have_more_workers(tmp_path: Path) -> None:
    arguments = ("perf/test_feeds.py", "--workload=tests.injected:fed", "-k", "loader or pinned")
    outcome = perf(tmp_path, *arguments)
    advice_ = outcome.output.partition("advice for feed_loader of fed on 2cpu")[2]
    assert re.search(r"more loader workers, .* \(feed_pinned\): .*; measured .* off by [+-][\d.]+ %\n", advice_)
    assert "no all-reduces were measured for advice on buckets and compression" in advice_
