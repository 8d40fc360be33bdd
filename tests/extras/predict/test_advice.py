"""Advice: measured configs are ranked, others are predicted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.extras.predict.advice import Advice, Figure, Parts, advise
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.stats.latency_bandwidth import LinkLine

MB = 2**20
# 1 ms for each 10 MB.
STRAIGHT = LinkLine(latency_s=0, bytes_per_s=10e3 * MB)
# 40 gradients of 10 MB: one bucket takes 40 ms, all of it exposed, after 4 ms of copies.
PARTS = Parts(step_ms=200, without_ms=156, backward_ms=100, copies_ms=4, gradients=((10 * MB, 4),) * 40)
DDP = CONFIGS["ddp"]


def advice(
    parts: Parts,
    *configs: str,
    line: LinkLine | None = STRAIGHT,
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
    latency = LinkLine(latency_s=0.005, bytes_per_s=STRAIGHT.bytes_per_s)
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
    at_once = replace(PARTS, backward_ms=0)  # nothing is hidden, whatever the buckets
    assert set(advice(at_once, *both)) == {"bf16"}


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
    line = LinkLine(latency_s=latency_s, bytes_per_s=1e9 * gb_per_s)
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
    figures = {"bf16": Figure(step_ms=190)}
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16", figures=figures)) == ["bf16"]
    assert list(advice(PARTS, "bf16-bucket_2000mb", "bf16")) == ["bf16-bucket_2000mb"]


def test_where_a_change_of_this_kind_was_measured_none_is_predicted() -> None:
    """50 MB are predicted to take less than the measured 100 MB."""
    figures = {"bucket_100mb": Figure(step_ms=190)}
    assert list(advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures)) == ["bucket_100mb"]
    figures = {"bucket_100mb": Figure(step_ms=210)}
    assert advice(PARTS, "bucket_50mb", "bucket_100mb", figures=figures) == {}
