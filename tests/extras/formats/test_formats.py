"""``python -m fixtures report --format``: the formats of other programs, read by these."""

import json
from dataclasses import replace

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from fixtures.extras.formats.formats import FORMATS
from fixtures.records.files import checked, read_record
from tests.command_line import ROOT, command_here

RECORD = ROOT / "baselines/2x-nvidia-h200-nv18/0001_vit.json"


def printed(name: str) -> str:
    outcome = command_here("report", str(RECORD), "--format", name)
    assert (outcome.exit_code, outcome.errors) == (0, "")
    return outcome.output


def test_each_test_is_an_object_with_its_launches_in_the_format_of_the_benchmark_database() -> None:
    record, objects = checked(read_record(RECORD)), json.loads(printed("oss"))
    steps = {one["benchmark"]["extra_info"]["test"]: one for one in objects if one["metric"]["name"] == "step_seconds"}
    assert {test.fullname: test.extra_info.launch_medians_s for test in record.benchmarks} == {
        test: one["metric"]["benchmark_values"] for test, one in steps.items()
    }
    for one in objects:  # the keys that all files of vLLM, ExecuTorch and PyTorch have
        assert one["benchmark"]["name"] == "ddp-perf"
        assert {"name", "type"} <= one["model"].keys()
        assert all(isinstance(value, int | float) for value in one["metric"]["benchmark_values"])


def test_prometheus_reads_each_launch_and_the_older_parser_of_node_exporter_too() -> None:
    text, record = printed("openmetrics"), checked(read_record(RECORD))
    families = {family.name: family.samples for family in read_openmetrics(text)}  # type: ignore[no-untyped-call]
    found = [(one.labels["test"], one.value) for one in families["ddp_perf_step_seconds"]]
    assert found == [(test.fullname, s) for test in record.benchmarks for s in test.extra_info.launch_medians_s]
    assert {family.name for family in parser.text_string_to_metric_families(text)} == families.keys()


def test_a_label_keeps_quotes_backslashes_and_line_breaks() -> None:
    record, name = checked(read_record(RECORD)), 'a"b\\c\nd'
    one = replace(record, benchmarks=[replace(record.benchmarks[0], fullname=name)])
    families = read_openmetrics(FORMATS["openmetrics"](one))  # type: ignore[no-untyped-call]
    (samples,) = (family.samples for family in families if family.name == "ddp_perf_samples_per_second")
    assert [sample.labels["test"] for sample in samples] == [name]


def test_an_unknown_format_names_those_there_are() -> None:
    outcome = command_here("report", str(RECORD), "--format", "csv").exits(2)
    assert all(name in outcome.errors for name in FORMATS)
