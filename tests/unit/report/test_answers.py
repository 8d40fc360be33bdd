"""The three answers at the top of a report."""

from fixtures.report.run_report.answers import Answer, answers
from tests.run_reports import DDP, h200, info_of, profiled, report_of, slower, with_transfers
from tests.saved_records import Record, infos


def answered(record: Record) -> tuple[Answer, Answer, Answer]:
    return answers(report_of(record))


def test_a_quiet_night() -> None:
    slow, best, cost = answered(h200())
    assert (slow.headline, slow.tone) == ("Nothing got slower", "good")
    assert slow.points[-1].text == "a slowdown of 7.6 % would have been found in half of the tests"
    assert best.headline == "bucket_10mb, +5.4 % over ddp"
    assert best.points[0].code[-1].endswith("bucket_cap_mb=10, static_graph=True, gradient_as_bucket_view=True)")
    assert cost.headline == "7.2 % of the step with ddp"


def test_a_slower_test_comes_with_its_reason_and_cause() -> None:
    slow = answered(slower(h200()))[0]
    assert (slow.headline, slow.tone) == ("1 of 40 tests got slower", "bad")
    assert (slow.points[0].name, slow.points[0].text) == (DDP, "slower by 5.1 %; cause: NCCL 2.28 -> 2.29")


def test_another_failure_is_not_called_slower() -> None:
    slow = answered(h200() | {"failed": {"perf/test_gradients.py::test_x": "wrong"}})[0]
    assert (slow.headline, slow.tone) == ("1 test failed, none for being slower", "bad")
    assert slow.points[0].text == "wrong"


def test_an_interrupted_run_is_no_good_news() -> None:
    slow = answered(h200() | {"interrupted": True})[0]
    assert (slow.tone, slow.points[0].name) == ("open", "interrupted")


def test_a_run_without_baselines_says_how_to_record_one() -> None:
    record = h200()
    for benchmark in record["benchmarks"]:
        benchmark["extra_info"]["verdict"] = {"word": "no baseline"}
    assert answered(record)[0].headline == "No baseline yet: record one with --benchmark-save=NAME"


def test_a_common_shift_is_bad_news() -> None:
    slow = answered(h200() | {"failed": {"perf::common_shift[x]": "all 12 tests are slower"}})[0]
    assert (slow.headline, slow.tone) == ("All tests slowed down together", "bad")


def test_a_run_that_measured_nothing() -> None:
    slow, best, cost = answered(h200() | {"benchmarks": []})
    assert [slow.headline, best.headline] == ["Nothing was measured", "Not known: no config was measured"]
    assert cost.headline.startswith("Not measured: this needs the config no_comm")


def test_on_one_gpu_communication_costs_nothing() -> None:
    record = h200()
    record["benchmarks"] = [one for one in record["benchmarks"] if one["extra_info"]["world_size"] == 1]
    assert record["benchmarks"]
    assert answered(record)[2].headline == "Nothing: one rank sends nothing"


def test_what_is_not_decided_is_not_called_best() -> None:
    record = h200()
    record["best"][0] |= {"decided": False, "among": ["bucket_10mb", "bucket_50mb"]}
    assert answered(record)[1].headline == "No clear winner; fastest here: bucket_10mb, +5.4 % over ddp"
    assert answered(record | {"disturbed": ["busy"]})[1].headline == "Not known: the run was disturbed"


def test_where_a_step_without_communication_is_slower_nothing_is_advised() -> None:
    record = h200()
    for best in record["best"]:
        best["disturbed"] = True
    for info in infos(record).values():
        info["of_limit_percent"] = 152.9
    _, best, cost = answered(record)
    assert best.headline == cost.headline == "Not known: the run was disturbed"
    assert best.points[0].text.startswith("disturbed, so no config is called best; fastest here: bucket_10mb, ")
    assert not any(point.code for point in best.points)
    assert cost.points[0].text == "nothing that could be measured"


def test_a_lossy_config_that_gains_nothing_has_no_code() -> None:
    record = h200()
    (lossy,) = (best for best in record["best"] if best["fidelity"] == "lossy")
    info_of(record, f"test_buckets[vit_l_32-4gpu-{lossy['config']}]")["samples_per_s"] = 1.0
    (point,) = (point for point in answered(record)[1].points if point.name.startswith("lossy"))
    assert (point.text.endswith("; no faster than lossless bucket_10mb"), point.code) == (True, ())


def test_a_reference_is_no_test_and_stands_in_the_table() -> None:
    reference = {
        "test": "perf/test_scaling.py::test_scaling[vit_l_32-1gpu-single]",
        "workload": "vit_l_32",
        "world": "1gpu",
        "interconnect": "native",
        "config": "single",
        "launch_medians_s": [0.08, 0.08],
        "samples_per_s": 400.0,
    }
    record = h200() | {"references": [reference]}
    record["benchmarks"] = [one for one in record["benchmarks"] if one["extra_info"]["config"] in ("ddp", "bf16")]
    report = report_of(record)
    assert {row.config for row in report.rows} == {"ddp", "bf16"}
    (row,) = (row for row in report.compared if row.reference)
    assert (row.config, row.word, round(row.step_ms, 6)) == ("single", "reference", 80)


def test_the_other_side_of_an_ab_test_is_named() -> None:
    record = slower(h200())
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp]")["against"] = {"build": "main", "launch_medians_s": [0.1]}
    assert answered(record)[0].headline == "1 of 40 tests is slower than main"


def test_profiled_exposed_communication_stands_next_to_the_share() -> None:
    cost = answered(with_transfers(profiled(h200())))[2]
    assert cost.points[0].text == "7.2 % of the step; 9.99 ms a step exposed when profiled"
