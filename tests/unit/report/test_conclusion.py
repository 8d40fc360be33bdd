"""The conclusion of a run, from its record."""

import pytest

from fixtures.report.conclusion import Conclusion, conclusion
from tests.run_reports import DDP, h200, info_of, report_of, slower
from tests.saved_records import Record, infos


def concluded(record: Record) -> Conclusion:
    return conclusion(report_of(record))


def said(record: Record) -> dict[str, str]:
    """Label -> text, of the block at the end of a run."""
    return {finding.label: finding.text for finding in concluded(record).lines}


def test_a_quiet_night() -> None:
    says = concluded(h200())
    assert (says.verdict.text, says.verdict.tone) == ("40 ok (40 measured tests)", "good")
    assert [(one.label, one.text) for one in says.lines[1:]] == [
        ("sensitivity", "a slowdown of 7.6 % would have been found in half of the tests"),
        (
            "best lossless",
            "bucket_10mb, 11.46 steps/s, +2.1 % over ddp_default, 98 % of the speed without communication",
        ),
        (
            "best lossy",
            "bf16-bucket_400mb, 11.01 steps/s, -1.8 % over ddp_default, 94 % of the speed without communication, "
            "gradient error 3e-03",
        ),
        ("disturbed", "no"),
    ]
    assert says.best[0].code[-1].endswith("bucket_cap_mb=10, static_graph=True, gradient_as_bucket_view=True)")


def test_a_slower_test_comes_with_its_reason_and_cause() -> None:
    verdict = concluded(slower(h200())).verdict
    assert (verdict.text, verdict.tone) == ("1 slower, 39 ok (40 measured tests)", "bad")
    assert verdict.points[0] == (DDP, "slower by 5.1 %; cause: NCCL 2.28 -> 2.29")


def test_another_failure_is_not_called_slower() -> None:
    verdict = concluded(h200() | {"failed": {"perf/test_gradients.py::test_x": "wrong"}}).verdict
    assert (verdict.text, verdict.tone) == ("40 ok (40 measured tests); 1 failed", "bad")
    assert verdict.points == (("perf/test_gradients.py::test_x", "wrong"),)


def test_an_interrupted_run_says_how_much_it_measured() -> None:
    verdict = concluded(h200() | {"interrupted": True, "planned": 48}).verdict
    assert (verdict.text, verdict.tone) == ("interrupted, 40 of 48 measured; 40 ok (40 measured tests)", "open")


def test_a_run_without_baselines_finds_nothing() -> None:
    record = h200()
    for info in infos(record).values():
        info["verdict"] = {"word": "no baseline"}
    assert said(record)["verdict"] == "40 without a baseline for 4x-nvidia-h200-nv18 (40 measured tests)"
    assert said(record)["sensitivity"] == "no slowdown would have been found, for want of baselines"


def test_a_quick_run_is_not_judged() -> None:
    record = h200() | {"quick": True}
    for info in infos(record).values():
        info |= {"verdict": {"word": "no baseline"}, "requested": {"launches": 2, "steps": 8, "warmup": 6}}
    verdict = concluded(record).verdict
    assert verdict.text == "none, a quick run is not judged (2 launches of up to 8 steps) and finds no slowdown"
    assert (verdict.tone, concluded(record).sensitivity) == ("plain", None)


def test_where_other_work_explains_any_slowdown_none_would_have_been_found() -> None:
    record = h200()
    for info in infos(record).values():
        info["found_percent"] = 1e9
    assert said(record)["sensitivity"] == "no slowdown would have been found, because the machine was slower"


def test_a_common_shift_is_bad_news() -> None:
    verdict = concluded(h200() | {"failed": {"perf::common_shift[x]": "all 12 tests are slower"}}).verdict
    assert verdict.text.startswith("40 ok (40 measured tests); all tests slowed down together")
    assert verdict.tone == "bad"


def test_a_wrong_hook_is_named_instead_of_its_failed_tests() -> None:
    failed = {"perf/test_gradients.py::test_gradients[bf16]": "rank 0"}
    verdict = concluded(h200() | {"failed": failed, "wrong_hooks": ["bf16"]}).verdict
    assert (verdict.text, verdict.tone) == ("40 ok (40 measured tests); wrong gradients: bf16", "bad")


def test_a_run_that_measured_nothing() -> None:
    says = concluded(h200() | {"benchmarks": []})
    assert (says.verdict.text, says.verdict.tone) == ("nothing was measured", "open")
    assert (says.best, says.disturbed) == ((), None)


def undecided(**changes: object) -> Record:
    record = h200()
    names = ["bucket_10mb", "bucket_50mb", "ddp_default"]
    found = {"decided": False, "among": names, "apart_percent": 11.5, "decided_from_percent": 13.2, "use": names[2]}
    record["best"][0] |= found | changes
    return record


def test_what_is_not_decided_says_what_could_have_been_and_what_to_use() -> None:
    (best, _) = concluded(undecided(lines=None)).best
    assert best.text == (
        "not decided among bucket_10mb, bucket_50mb and ddp_default: they differ by 11.5 %, and these launches decide "
        "from 13.2 % on; use ddp_default, PyTorch's default, 11.21 steps/s, 96 % of the speed without communication"
    )
    assert (best.tone, best.code) == ("open", ())


def test_one_launch_decides_nothing() -> None:
    assert said(undecided(decided_from_percent=None))["best lossless"].startswith(
        "one launch decides nothing among bucket_10mb, bucket_50mb and ddp_default; use ddp_default, "
    )


@pytest.mark.parametrize("disturbed", [{"disturbed": ["busy"]}, {}])
def test_in_a_disturbed_run_no_config_is_advised(disturbed: Record) -> None:
    record = h200() | disturbed
    for best in record["best"]:
        best["disturbed"] = not disturbed
    says = concluded(record)
    assert [one.text for one in says.best] == [
        "none, the run was disturbed; fastest here: bucket_10mb",
        "none, the run was disturbed; fastest here: bf16-bucket_400mb",
    ]
    assert not any(one.code for one in says.best)


def test_a_table_that_was_disturbed_says_so() -> None:
    assert said(h200() | {"noise": {"vit_l_32 4gpu native": "spread 51 %"}})["disturbed"] == "yes, spread 51 %"
    other = {"noise": {"vit_l_32 1gpu native": "spread 51 %"}}
    assert said(h200() | other)["disturbed"] == "yes, vit_l_32 1gpu native: spread 51 %"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "yes, BUSY; use a quiet machine"),
        ({"noise": {"vit_l_32 4gpu native": "spread 51 %"}}, "yes, BUSY; spread 51 %"),
        ({"disturbed": ["JUMP"]}, "yes, so no config is called best: JUMP; BUSY; use a quiet machine"),
    ],
)
def test_other_work_on_the_host_is_in_the_line_on_the_disturbance(more: Record, says: str) -> None:
    assert said(h200() | {"other_work": "BUSY"} | more)["disturbed"] == says


def test_a_lossy_config_that_gains_nothing_has_no_code() -> None:
    record = h200()
    (lossy,) = (best for best in record["best"] if best["fidelity"] == "lossy")
    lossy |= {"use": None, "apart_percent": 0.0, "remark": "no faster than lossless bucket_10mb", "lines": None}
    (_, found) = concluded(record).best
    assert found.text.endswith(", gradient error 3e-03; no faster than lossless bucket_10mb")
    assert (found.code, found.tone) == ((), "open")


def test_a_reference_is_no_test_and_stands_in_the_table() -> None:
    reference = {
        "test": "perf/test_scaling.py::test_scaling[vit_l_32-1gpu-single]",
        "workload": "vit_l_32",
        "world": "1gpu",
        "world_size": 1,
        "interconnect": "native",
        "config": "single",
        "launch_medians_s": [0.08, 0.08],
        "samples_per_s": 400.0,
    }
    record = h200() | {"references": [reference]}
    record["benchmarks"] = [one for one in record["benchmarks"] if one["extra_info"]["config"] in ("ddp", "bf16")]
    report = report_of(record)
    assert {row.config for row in report.tests if not row.is_reference} == {"ddp", "bf16"}
    (row,) = (row for rows in report.tables.values() for row in rows if row.is_reference)
    assert (row.config, row.word, round(row.step_ms, 6)) == ("single", "reference", 80)


def test_the_two_sides_of_an_ab_test_name_no_best_config() -> None:
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp]")["against"] = {"build": "main", "launch_medians_s": [0.1]}
    assert said(record).keys() == {"verdict", "sensitivity"}


def test_a_large_gradient_error_comes_with_what_to_check() -> None:
    record = h200()
    info_of(record, "test_buckets[vit_l_32-4gpu-bf16-bucket_400mb]")["gradient_error"] = 0.77
    assert "gradient error 8e-01, so check that the model still trains" in said(record)["best lossy"]


def test_the_largest_world_comes_first_in_whatever_order_the_record_has_its_best_configs() -> None:
    record = h200()
    record["best"].sort(key=lambda best: best["world"])  # as in baselines/2x-nvidia-h100-80gb-hbm3-nv18
    says = concluded(record)
    assert [one.group.world for one in (*says.best, *says.others) if one.group] == ["4gpu", "4gpu", "1gpu"]
