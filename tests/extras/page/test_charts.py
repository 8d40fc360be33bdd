"""The charts of the page, one step of all ranks, the card and the summary."""

import gzip
import json
import math
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from plotly.graph_objects import Figure

from fixtures.extras.page.charts import charts_of, launches_ms, pareto_front
from fixtures.extras.page.figure import Chart
from fixtures.extras.page.page_report import PageReport, StepOfRanks, merge_step, nights_until, step_of_ranks
from fixtures.extras.page.plugin import finite
from fixtures.extras.page.summary import card_svg, summary
from fixtures.matrix.recorded import json_of
from fixtures.records.files import changed, checked
from fixtures.report.card import card_of
from fixtures.report.commands import CLONE
from fixtures.trace.timeline import BadTrace, Timeline
from tests.builders import BF16_LOSS, TRAINED
from tests.extras.page.test_markdown import assert_all_is_in_blocks_of_code, with_the_way_out
from tests.nightly_records import DDP as NIGHTLY
from tests.nightly_records import HERE, night, write
from tests.nightly_records import benchmark as of_night
from tests.recordings import NCCL, Recording, ddp_steps, read_chrome
from tests.run_reports import (
    BASELINES,
    DDP,
    HOSTILE,
    h200,
    hostile,
    info_of,
    large,
    profiled,
    report_of,
    slower,
    with_reference,
    with_transfers,
)
from tests.saved_records import Record, infos

GROUP = "vit_l_32 4gpu native"


def charts(report: PageReport) -> dict[str, Chart]:
    """Name -> chart, of the largest world."""
    return {chart.name: chart for chart in charts_of(report) if chart.group in ("", GROUP)}


def test_a_chart_without_data_is_left_out() -> None:
    one = h200()
    one["benchmarks"] = one["benchmarks"][-1:]
    assert [chart.name for chart in charts_of(page_report_of(one, history=False))] == ["launch-times"]


def test_the_loss_of_a_config_is_drawn_over_every_seed_as_written() -> None:
    mine = replace(BF16_LOSS, workload="vit_l_32", world="4gpu")
    report = page_report_of(h200(), history=False)
    chart = charts(replace(report, record=replace(report.record, losses=[mine])))["loss-curves"]
    assert [trace["name"] for trace in chart.traces] == ["as written", "as written", "bf16"]
    assert list(chart.traces[-1]["y"]) == pytest.approx([2.01, 1.007])
    Figure(chart.figure)


def test_every_chart_has_axes_with_units_and_says_how_to_read_it(tmp_path: Path) -> None:
    found = charts(page_report_of(with_transfers(profiled(h200())), steps={DDP: two_ranks(tmp_path)}))
    assert set(found) >= {"bucket-sizes", "gradient-errors", "stored-nights", "scaling-0", "transfers-0"}
    assert set(found) >= {"parts-of-step", "launch-times", "timeline-0"}
    for chart in found.values():
        assert chart.layout["xaxis"]["title"]["text"], chart.name
        assert chart.caption.endswith("."), chart.name
        Figure(chart.figure)  # raises ValueError for a property that plotly does not know
    # A step by rank names each bucket.
    (sent,) = (trace for trace in found["timeline-0"].traces if trace["name"] == "collective")
    assert sent["customdata"][:2] == [f"all_reduce of bucket {n}, 0.0 MB, largest: a" for n in (1, 2)]
    assert set(sent["y"]) == {"rank 0 communication", "rank 1 communication"}


def test_a_hook_has_a_line_over_its_bucket_sizes() -> None:
    lines = {trace["name"]: trace for trace in charts(page_report_of(h200()))["bucket-sizes"].traces}
    assert lines.keys() == {"no hook", "bf16", "powersgd_rank1", "no_comm", "ddp (one bucket)"}
    assert lines["no hook"]["x"] == [10, 25, 50, 100, 400, 2000]
    assert round(lines["no hook"]["y"][0]) == 1466


def test_a_reference_is_in_the_chart_of_scaling() -> None:
    assert charts(page_report_of(with_reference(h200()), history=False))["scaling-0"].traces[-1]["y"][0] == 400


def test_linear_scaling_begins_at_one_device() -> None:
    traces = charts(page_report_of(h200()))["scaling-0"].traces
    (linear,) = (trace for trace in traces if trace["name"].startswith("linear"))
    single = infos(h200())["test_scaling[vit_l_32-1gpu-single]"]["samples_per_s"]
    assert linear["y"] == [single * ranks for ranks in (1, 2, 4)]


def test_the_pareto_front_has_no_config_that_another_beats_in_both() -> None:
    record = h200()
    infos(record)["test_throughput[vit_l_32-4gpu-fp16]"]["samples_per_s"] = 1600
    rows = [
        row for row in page_report_of(record).tests if row.fidelity in ("lossless", "lossy") and row.group.size == 4
    ]
    assert [row.config for row in pareto_front(rows)] == ["bucket_10mb", "fp16"]


def test_the_parts_of_a_step_add_up_to_it() -> None:
    chart = charts(page_report_of(profiled(h200())))["parts-of-step"]
    lengths = [sum(parts) for parts in zip(*(trace["x"] for trace in chart.traces), strict=True)]
    info = infos(h200())["test_throughput[vit_l_32-4gpu-ddp]"]
    assert round(lengths[chart.traces[0]["y"].index("ddp")], 3) == round(1e3 / info["steps_per_s"] + 1.5, 3)


def test_the_steps_of_a_launch_are_split_as_they_were_measured_or_are_its_median() -> None:
    record = h200()
    (benchmark,) = (one for one in record["benchmarks"] if one["fullname"] == DDP)
    info, stats = benchmark["extra_info"], benchmark["stats"]

    def launches() -> list[list[float]]:
        (row,) = (row for row in page_report_of(record, history=False).tests if row.test == DDP)
        return launches_ms(row)

    assert [len(launch) for launch in launches()] == info["launch_steps"]
    medians = [[1e3 * median_s] for median_s in info["launch_medians_s"]]
    benchmark["stats"] = stats | {"data": []}
    assert launches() == medians
    benchmark["stats"], info["launch_steps"] = stats, [sum(info["launch_steps"]) + 1]  # as no run writes it
    assert launches() == medians


def test_the_history_has_verdicts_and_what_changed_and_no_newer_record() -> None:
    chart = charts(page_report_of(slower(h200())))["stored-nights"]
    ddp = chart.traces[0]
    assert (ddp["name"], len(ddp["x"])) == ("ddp", 4)
    assert ddp["marker"]["symbol"][-1] == "triangle-down"
    assert any("commit 154edb7a78 -> d9b226b9d0" in note for note in chart.notes)
    # Of those that are neither slower nor faster, the one that moved most.
    assert chart.traces[1]["name"] == "powersgd_rank1-bucket_25mb"
    assert chart.traces[1]["y"][-1] == min(trace["y"][-1] for trace in chart.traces) < -11


def test_the_nights_of_a_test_are_earlier_ones_of_its_instance_and_workload_each_once(tmp_path: Path) -> None:
    for number, batch in enumerate((4, 8, 8, 8), start=1):
        info = {"workload_fingerprint": json_of(replace(TRAINED, batch_size=batch))}
        shm = info | {"instance": f"{HERE}-shm", "interconnect": "shm"}
        for folder, of in (("nightly", info), ("baselines", info), ("others", shm)):  # nightly and, promoted, stored
            write(tmp_path / folder, number, night(number, of_night(NIGHTLY, 0.1, **of)))
    write(tmp_path, 9, night(2, {"fullname": "test_sort", "extra_info": {}}))
    today = checked(night(3, of_night(NIGHTLY, 0.1, **info)))
    (nights,) = nights_until(today, [tmp_path, tmp_path / "nowhere"]).values()
    assert [one.finished.day for one in nights] == [3, 4]
    assert nights[0].steps_per_s == pytest.approx(10)


def test_each_point_says_over_how_many_steps_its_gradient_was_compared() -> None:
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-powersgd_rank4]")["gradient_error_steps"] = 20
    points = {
        config: trace["name"]
        for trace in charts(page_report_of(record, history=False))["gradient-errors"].traces[1:]
        for config, _ in trace["customdata"]
    }
    assert points["ddp"] == "lossless, of one step"
    assert points["bf16"] == "lossy, of one step"
    assert points["powersgd_rank1"] == "lossy, steps not recorded"
    assert points["powersgd_rank4"] == "lossy, of the mean of 20 steps"


def test_a_gradient_that_is_no_number_costs_its_point_alone() -> None:
    record = h200()
    infos(record)["test_throughput[vit_l_32-4gpu-bf16]"]["gradient_error"] = math.nan
    found = charts(page_report_of(changed(record, finite), history=False))
    names = [point for trace in found["gradient-errors"].traces[1:] for point, _ in trace["customdata"]]
    assert "fp16" in names
    assert "bf16" not in names


def test_a_chart_of_very_many_configs_has_the_fastest() -> None:
    record = large(500, 2)
    for benchmark in record["benchmarks"]:
        benchmark["extra_info"] |= {"world": "4gpu", "world_size": 4}
    launches = charts(page_report_of(record, history=False))["launch-times"]
    assert len(launches.traces[0]["y"]) == 60
    assert launches.notes == ["The 60 fastest of 500 configs."]


# One step of all ranks on one clock, and its trace for Perfetto


# Any: events are JSON.
Event = dict[str, Any]


def shifted(recording: Recording, by_us: float) -> Recording:
    """The recording of a rank whose clock is so much ahead."""
    return replace(
        recording,
        calls=[(name, thread, start + by_us, end + by_us, n) for name, thread, start, end, n in recording.calls],
        work=[(kind, name, stream, a + by_us, b + by_us, n) for kind, name, stream, a, b, n in recording.work],
        ranges=[(name, thread, start + by_us, end + by_us) for name, thread, start, end in recording.ranges],
    )


def timelines(folder: Path, *recordings: Recording) -> list[Timeline]:
    return [read_chrome(one.chrome(folder / f"rank{one.rank}.json")) for one in recordings]


def ends_ms(step: StepOfRanks) -> list[list[float]]:
    """When the collectives of each rank end."""
    return [[round(span.end_ms, 6) for span in rank.spans if span.kind == "collective"] for rank in step.ranks]


@pytest.mark.parametrize(
    ("ahead_us", "aligned_by"), [(0, "their recorded clocks"), (2500, "the ends of their collectives")]
)
def test_a_clock_that_is_off_is_shifted_until_the_collectives_end_together(
    tmp_path: Path, ahead_us: int, aligned_by: str
) -> None:
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), shifted(ddp_steps(1, steps=5), ahead_us)))
    assert (step.aligned_by, [rank.shift_ns for rank in step.ranks]) == (aligned_by, [0, -1000 * ahead_us])
    assert ends_ms(step) == [[0.62, 0.9]] * 2


def test_ends_that_scatter_say_nothing_about_a_clock(tmp_path: Path) -> None:
    scattered = ddp_steps(1, steps=5)
    longer = cycle((50, -70, 90, -30, 10))
    scattered.work = [
        (kind, name, stream, start, end + (next(longer) if name == NCCL else 0), launch)
        for kind, name, stream, start, end, launch in scattered.work
    ]
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), scattered))
    assert (step.aligned_by, step.ranks[1].shift_ns) == ("their recorded clocks", 0)


def test_without_clocks_and_collectives_the_step_begins_together(tmp_path: Path) -> None:
    alone = [replace(ddp_steps(rank), work=[w for w in ddp_steps(rank).work if w[1] != NCCL]) for rank in range(2)]
    unclocked = [replace(timeline, zero_ns=None) for timeline in timelines(tmp_path, alone[0], shifted(alone[1], 70))]
    step = step_of_ranks(unclocked)
    assert (step.aligned_by, step.ranks[1].shift_ns) == ("the start of the step", -70_000)


def test_the_step_in_the_middle_is_taken_and_late_ranks_are_seen(tmp_path: Path) -> None:
    step = step_of_ranks(timelines(tmp_path, ddp_steps(0, steps=5), ddp_steps(1, steps=5, late_us=100)))
    assert step.name == "Batch 3"  # of 1 to 4: the first gives only the start of the second
    starts = [[span.start_ms for span in rank.spans if span.kind == "collective"] for rank in step.ranks]
    assert [round(b - a, 6) for a, b in zip(*starts, strict=True)] == [0, 0.1]


@pytest.mark.parametrize(("gap_us", "compute"), [(0.5, [(20, 720)]), (2, [(20, 320), (322, 720)])])
def test_gaps_in_the_compute_shorter_than_a_thousandth_of_the_step_are_not_drawn(
    tmp_path: Path, gap_us: float, compute: list[tuple[int, int]]
) -> None:
    late = ddp_steps(0, steps=5)
    late.work = [
        (kind, name, stream, start + (gap_us if end - start == 400 else 0), end, launch)
        for kind, name, stream, start, end, launch in late.work
    ]
    (rank,) = step_of_ranks(timelines(tmp_path, late)).ranks
    spans = [(round(1e3 * span.start_ms), round(1e3 * span.end_ms)) for span in rank.spans if span.kind == "compute"]
    assert spans == [*compute, (950, 1000)]


def test_ranks_without_a_step_in_common_are_refused(tmp_path: Path) -> None:
    others = ddp_steps(1)
    others.ranges = [(name.replace("Batch ", "Batch 9"), thread, a, b) for name, thread, a, b in others.ranges]
    with pytest.raises(BadTrace, match=r"rank0\.json, rank1\.json have no step in common"):
        step_of_ranks(timelines(tmp_path, ddp_steps(0), others))


def test_a_merged_trace_has_one_step_of_each_rank_whose_collectives_end_together(tmp_path: Path) -> None:
    """Three ranks whose clocks are 0, 2.5 and -4 ms off."""
    files = [
        shifted(ddp_steps(rank, steps=5), by_us).chrome(tmp_path / f"rank{rank}.json.gz")
        for rank, by_us in {0: 0, 1: 2500, 2: -4000}.items()
    ]
    step, data = merge_step(files)
    merged = json.loads(gzip.decompress(data))
    events: list[Event] = merged["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {1: "rank 0", 2: "rank 1", 3: "rank 2"}
    assert {event["pid"] for event in events if event["ph"] == "X" and event["cat"] == "kernel"} == names.keys()
    ends: dict[int, list[float]] = {}
    for event in events:
        if event["name"] == NCCL:
            ends.setdefault(event["pid"], []).append(round(event["ts"] + event["dur"], 3))
    assert len(ends[1]) == 2
    assert ends[1] == ends[2] == ends[3]
    assert merged["clock_shift_us"] == {"0": 0.0, "1": -2500.0, "2": 4000.0}
    assert {event["name"] for event in events if event["name"].startswith("Batch")} == {step.name}
    threads = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    assert len(threads) == len(set(threads))
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"} <= set(threads)


# The cards at the top of the page


# summary.md, to paste into an issue, and the picture of the card


def test_the_summary_has_what_an_issue_asks_for() -> None:
    command = f"{CLONE}/.venv/bin/pytest {CLONE}/perf -k throughput"
    text = summary(replace(report_of(h200()), next="record a baseline: pytest perf"), command)
    assert text.splitlines()[:8] == [
        "## ddp-perf",
        "",
        "```text",
        "instance: 4x-nvidia-h200-nv18",
        "machine: NVIDIA H200",
        "transport: P2P/CUMEM on 96 channels",
        "versions: torch 2.11.0+cu130, CUDA 13.0, NCCL 2.28.9, driver 580.159.04, Python 3.12.3",
        "step of ddp_default, vit_l_32, 4gpu: 89.17 ms (88.97 to 89.29 in 3 launches)",
    ]
    assert "costs about 4 % of a step of ddp_default" in text
    assert "\nnext: record a baseline: pytest perf\ncommand: .venv/bin/pytest perf -k throughput\n```\n" in text


@pytest.mark.parametrize("record", [h200(), slower(h200()), large(90, 1)])
def test_it_is_short_and_names_no_host(record: Record) -> None:
    record["environment"]["host"] = "node-of-a-customer"
    text = summary(report_of(record), "pytest perf\n```\n# a")
    assert len(text.splitlines()) <= 30
    assert "node-of-a-customer" not in text


@pytest.mark.parametrize("record", [hostile(h200()), with_the_way_out(h200())], ids=["names", "texts"])
def test_every_text_of_a_record_is_in_a_block_of_code(record: Record) -> None:
    assert_all_is_in_blocks_of_code(summary(report_of(record)))


@pytest.mark.parametrize("record", [h200(), hostile(h200())])
def test_the_picture_of_the_card_has_its_text_and_nothing_else(record: Record) -> None:
    record["instance"] = record["instance"] + HOSTILE
    elements = list(ElementTree.fromstring(card_svg(report_of(record))).iter())
    assert {element.tag.partition("}")[2] for element in elements} == {"svg", "rect", "circle", "g", "text", "tspan"}
    shown = " ".join(element.text or "" for element in elements)
    assert all(f"{finding.label}:" in shown for finding in card_of(report_of(record)).lines())


def page_report_of(record: Record, *, steps: dict[str, StepOfRanks] | None = None, history: bool = True) -> PageReport:
    typed = checked(record)
    return PageReport(record=typed, nights=nights_until(typed, [BASELINES] if history else []), steps=steps or {})


def two_ranks(folder: Path) -> StepOfRanks:
    """A step of two ranks, from traces."""
    files = [ddp_steps(rank).chrome(folder / f"rank{rank}.json") for rank in range(2)]
    return step_of_ranks([read_chrome(file) for file in files])
