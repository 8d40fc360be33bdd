"""The conclusion of a run, from its record."""

import pytest

from fixtures.report.conclusion import Conclusion, conclusion
from tests.run_reports import DDP, h200, info_of, report_of, slower
from tests.saved_records import Record, infos

HOST = "the host, which launches kernels too late"


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
        ("best lossless", "bucket_10mb, 11.46 steps/s, +2.1 % over ddp_default"),
        ("best lossy", "bf16-bucket_400mb, 11.01 steps/s, -1.8 % over ddp_default, gradient error 3e-03"),
        ("disturbed", "no"),
    ]
    assert says.best[0].code[-1].endswith("bucket_cap_mb=10, static_graph=True, gradient_as_bucket_view=True)")


def test_a_slower_test_comes_with_its_reason_and_cause() -> None:
    verdict = concluded(slower(h200())).verdict
    assert (verdict.text, verdict.tone) == ("1 slower, 39 ok (40 measured tests)", "bad")
    assert verdict.points[0] == (DDP, "slower by 5.1 %; cause: NCCL 2.28 -> 2.29")


GRADIENTS = {"perf/test_gradients.py::test_gradients[bf16]": "rank 0"}


@pytest.mark.parametrize(
    ("more", "text", "tone"),
    [
        ({"failed": GRADIENTS}, "40 ok (40 measured tests); 1 failed", "bad"),
        (
            {"failed": GRADIENTS, "wrong_hooks": ["bf16"], "wrong_tests": list(GRADIENTS)},
            "40 ok (40 measured tests); wrong gradients: bf16",
            "bad",
        ),
        (
            {"failed": {"mine.py::test_grad_log": "no file"}, "wrong_hooks": ["bf16"]},  # a test of the user's own
            "40 ok (40 measured tests); 1 failed; wrong gradients: bf16",
            "bad",
        ),
        (
            {"failed": {"perf::common_shift[x]": "all 12 tests are slower"}},
            "40 ok (40 measured tests); all tests slowed down together; 1 failed",
            "bad",
        ),
        (
            {"interrupted": True, "planned": 48},
            "interrupted, 40 of 48 speed tests measured; 40 ok (40 measured tests)",
            "open",
        ),
        ({"benchmarks": []}, "nothing was measured", "open"),
    ],
    ids=["failed", "wrong hook", "own test", "common shift", "interrupted", "nothing"],
)
def test_the_verdict_of_a_run_in_which_nothing_is_slower(more: Record, text: str, tone: str) -> None:
    verdict = concluded(h200() | more).verdict
    assert (verdict.text, verdict.tone) == (text, tone)
    assert verdict.points == tuple(more.get("failed", {}).items())


def every_test(record: Record, **changed: object) -> Record:
    """The record with this in each of its tests."""
    for info in infos(record).values():
        info |= changed
    return record


def test_a_run_without_baselines_or_next_to_other_work_finds_nothing() -> None:
    record = every_test(h200(), verdict={"word": "no baseline"})
    assert said(record)["verdict"] == "40 without a baseline for 4x-nvidia-h200-nv18 (40 measured tests)"
    assert said(record)["sensitivity"] == "no slowdown would have been found, because no test has a baseline"
    record = every_test(h200(), found_percent=1e9)
    assert said(record)["sensitivity"] == "no slowdown would have been found, because the machine was slower"


def test_what_no_record_has_is_the_suspect() -> None:
    many = [f"NCCL_{name}=1 is set" for name in "ABCDEF"]
    assert "suspect" not in said(h200())
    assert said(h200() | {"suspects": many[:1]})["suspect"] == "NCCL_A=1 is set; in no record"
    assert said(h200() | {"suspects": many})["suspect"].endswith("NCCL_D=1 is set and 2 more; in no record")


def test_a_quick_run_is_not_judged() -> None:
    requested = {"launches": 2, "steps": 8, "warmup": 6}
    record = every_test(h200() | {"quick": True}, verdict={"word": "no baseline"}, requested=requested)
    verdict = concluded(record).verdict
    assert verdict.text == "none, a quick run is too short to be judged (2 launches of up to 8 steps)"
    assert (verdict.tone, concluded(record).sensitivity) == ("plain", None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"other_work": "BUSY", "disturbed": ["JUMP", "BUSY"]},
            "yes, so no config is called best: JUMP; BUSY; use a quiet machine",
        ),
        ({}, "no"),
        ({"other_work": "BUSY"}, "no, although BUSY: no test here waits for the host"),
        (
            {"unwatched": True},
            "unknown, the host's load is not known and the canaries were not timed before and after the tests",
        ),
    ],
)
def test_what_disturbed_the_run_is_one_line(more: Record, says: str) -> None:
    assert said(h200() | more)["disturbed"] == says


def test_in_a_disturbed_run_or_an_ab_test_no_config_is_advised() -> None:
    says = concluded(h200() | {"disturbed": ["busy"]})
    assert [one.text for one in says.best] == [
        "none, the run was disturbed; fastest here: bucket_10mb",
        "none, the run was disturbed; fastest here: bf16-bucket_400mb",
    ]
    assert not any(one.code for one in says.best)
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp]")["against"] = {"build": "main", "launch_medians_s": [0.1]}
    assert said(record).keys() == {"verdict", "sensitivity"}


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


def test_a_large_gradient_error_comes_with_what_to_check() -> None:
    record = h200()
    info_of(record, "test_buckets[vit_l_32-4gpu-bf16-bucket_400mb]")["gradient_error"] = 0.77
    assert "gradient error 8e-01, so check that the model still trains" in said(record)["best lossy"]


def test_the_largest_world_comes_first_in_whatever_order_the_record_has_its_best_configs() -> None:
    record = h200()
    record["best"].sort(key=lambda best: best["world"])  # as in baselines/2x-nvidia-h100-80gb-hbm3-nv18
    says = concluded(record)
    assert [one.group.world for one in (*says.best, *says.others) if one.group] == ["4gpu", "4gpu", "1gpu"]


LIMITED = {
    "by": "compute",
    "known_by": "marks",
    "transfer_percent": 2,
    "compute_percent": 97.4,
    "most_gain_percent": 3.1,
}


def limited(**step_limit: object) -> str:
    """What a night says of the limit of its steps."""
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]")["step_limit"] = LIMITED | step_limit
    assert next(iter(list(said(record))[1:])) == "limited by"
    return said(record)["limited by"]


@pytest.mark.parametrize(
    ("step_limit", "says"),
    [
        ({}, "compute (97 % of the step); no config of DDP can gain more than 4 %"),
        ({"most_gain_percent": 0.2}, "compute (97 % of the step); no config of DDP can gain more than 1 %"),
        ({"most_gain_percent": None}, "compute (97 % of the step)"),
        ({"transfer_percent": None, "most_gain_percent": None}, "compute (at least 97 % of the step)"),
        ({"by": "host", "host_percent": 34.2, "most_gain_percent": None}, f"{HOST} (34 % of the step)"),
        ({"by": "host", "most_gain_percent": None}, HOST),
        (
            {"by": "transfer", "transfer_percent": 46.0, "most_gain_percent": 88.0},
            "transfer (46 % of the step is communication that nothing hides); no config of DDP can gain more than 88 %",
        ),
        (
            {"by": "late_rank", "late_rank": 1, "late_rank_percent": 30.0, "most_gain_percent": None},
            "rank 1, for which the others wait (30 % of the step)",
        ),
        ({"by": None, "why": "one launch", "most_gain_percent": None}, "one launch"),
    ],
)
def test_the_limit_of_a_step_is_said_first(step_limit: dict[str, object], says: str) -> None:
    assert limited(**step_limit) == says


@pytest.mark.parametrize(
    ("launches", "says"),
    [
        (
            [0.080, 0.0801, 0.0802],
            "; bucket_10mb has 113 % of the speed without communication, because the input limits both",
        ),
        ([0.080], "; bucket_10mb has 113 % of the speed without communication, because the input limits both"),
        ([0.07, 0.09, 0.12], ""),
    ],
    ids=["decided", "one launch", "within the interval"],
)
def test_more_than_the_speed_without_communication_comes_with_the_reason(launches: list[float], says: str) -> None:
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-no_comm]")["launch_medians_s"] = [0.0904, 0.0905, 0.0906]
    fast = {"launch_medians_s": launches, "of_limit_percent": 113.0, "samples_per_s": 9999.0}
    for name in ("test_throughput[vit_l_32-4gpu-bucket_10mb]", "test_buckets[vit_l_32-4gpu-bucket_10mb]"):
        if name in infos(record):
            info_of(record, name).update(fast)
    limit = {"by": "input", "known_by": "marks", "input_percent": 61.0, "most_gain_percent": 2.0}
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]")["step_limit"] = limit
    most = "its input, such as a data loader (61 % of the step); no config of DDP can gain more than 2 %"
    assert said(record)["limited by"] == most + says


def test_a_gain_that_the_launches_do_not_decide_is_not_printed() -> None:
    record = h200()
    info_of(record, "test_throughput[vit_l_32-4gpu-ddp_default]")["launch_medians_s"] = [0.05, 0.09, 0.2]
    assert said(record)["best lossless"] == "bucket_10mb, 11.46 steps/s"
