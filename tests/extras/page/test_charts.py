"""What the charts of a report show. That plotly draws them is tested in a browser: test_report_page.py."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from plotly.graph_objects import Figure

from fixtures.extras.page.charts import charts_of
from fixtures.extras.page.charts.gradient_errors import pareto_front
from fixtures.extras.page.charts.launch_times import launches_ms
from fixtures.extras.page.figure import Chart
from fixtures.extras.page.page_report import PageReport
from fixtures.report.report_files import finite
from tests.builders import BF16_LOSS
from tests.extras.page.page_reports import page_report_of, two_ranks
from tests.run_reports import DDP, h200, info_of, large, profiled, slower, with_transfers
from tests.saved_records import infos

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
    assert set(found) >= {"parts-of-step", "launch-times", "timeline-0", "timeline-1"}
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
    record = h200()
    reference = {
        "test": "perf/test_scaling.py::test_scaling[vit_l_32-1gpu-single]",
        "workload": "vit_l_32",
        "world": "1gpu",
        "interconnect": "native",
        "config": "single",
        "launch_medians_s": [0.08, 0.08],
        "samples_per_s": 400.0,
    }
    record["benchmarks"] = [one for one in record["benchmarks"] if one["extra_info"]["config"] in ("ddp", "bf16")]
    scaling = charts(page_report_of(record | {"references": [reference]}, history=False))["scaling-0"]
    assert scaling.traces[-1]["y"][0] == 400


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
    record = h200()
    record["finished"] = "2026-11-22T10:00:00+00:00"
    nights = page_report_of(record).nights[DDP]
    assert [night.file.name for night in nights] == ["0001_vit.json", "0002_vit.json", "run.json"]


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
    found = charts(page_report_of(finite(record), history=False))
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
