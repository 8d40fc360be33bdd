"""Two records under one name: the same workload and config, or a named difference."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fixtures.matrix.recorded import json_of
from fixtures.records.comparability import find_mismatch
from fixtures.records.schema import TestRecord
from tests.builders import TRAINED

WORKLOAD: dict[str, Any] = json_of(TRAINED) | {
    "sample": ["float32[3, 16, 16]", "int64[]"],
    "batch_size": 512,
    "optimizer_options": {"lr": "0.001", "momentum": "0"},
}
CONFIG: dict[str, Any] = {
    "ddp": True,
    "ddp_arguments": {"bucket_cap_mb": "25"},
    "hook": "powersgd_rank1",
    "hook_options": {"matrix_approximation_rank": "1"},
    "feed": "pinned",
    "variables": {},
}


def record(workload: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None) -> TestRecord:
    """A record with these fingerprints; None: without one, as an older version wrote it."""
    info = {
        "workload": "mine",
        "launch_medians_s": [0.1],
        **({} if workload is None else {"workload_fingerprint": dict(workload)}),
        **({} if config is None else {"config_fingerprint": dict(config)}),
    }
    return msgspec.convert(info, TestRecord)


RECORDED = record(WORKLOAD, CONFIG)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"batch_size": 4}, "batch 512 in the records, 4 now"),
        (
            {"sample": ["float32[3, 32, 32]", "int64[]"]},
            "sample float32[3, 16, 16] and int64[] in the records, float32[3, 32, 32] and int64[] now",
        ),
        (
            {"parameters_sha256": "c", "parameters": 6, "parameter_elements": 1000, "parameter_dtypes": ["bfloat16"]},
            "parameters 2,709,706 in 4 tensors of float32 in the records, 1,000 in 6 tensors of bfloat16 now",
        ),
        (
            {"parameters_sha256": "c"},
            "parameters of other shapes, dtypes or order in the records (2,709,706 in 4 tensors of float32 in both)",
        ),
        ({"buffers_sha256": "c", "buffers": 2}, "buffers 8 in 1 tensors in the records, 8 in 2 tensors now"),
        ({"optimizer": "AdamW", "optimizer_options": {"lr": "0.1"}}, "optimizer SGD in the records, AdamW now"),
        ({"optimizer_options": {"lr": "0.1", "momentum": "0"}}, "lr 0.001 in the records, 0.1 now"),
        (
            {"activation_dtypes": ["bfloat16", "float32"]},
            "dtypes of the forward pass float32 in the records, bfloat16 and float32 now",
        ),
        ({"float32_matmul_precision": "high"}, "float32_matmul_precision highest in the records, high now"),
        ({"find_unused_parameters": True}, "find_unused_parameters False in the records, True now"),
    ],
)
def test_another_workload_is_reported_with_what_differs(changed: dict[str, Any], said: str) -> None:
    mismatch = find_mismatch(RECORDED, record(WORKLOAD | changed, CONFIG))
    assert mismatch is not None
    assert mismatch.reason == f"the records have another workload under this name: {said}"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ddp_arguments": {"bucket_cap_mb": "50"}}, "bucket_cap_mb 25 in the records, 50 now"),
        ({"ddp_arguments": {}}, "bucket_cap_mb 25 in the records, DDP's default now"),
        ({"hook": "bf16", "hook_options": {}}, "hook powersgd_rank1 in the records, bf16 now"),
        ({"hook_options": {"matrix_approximation_rank": "2"}}, "matrix_approximation_rank 1 in the records, 2 now"),
        ({"feed": "loader"}, "feed pinned in the records, loader now"),
        ({"ddp": False, "ddp_arguments": {}}, "ddp True in the records, False now"),
        ({"variables": {"NCCL_MAX_CTAS": "4"}}, "NCCL_MAX_CTAS unset in the records, 4 now"),
    ],
)
def test_another_config_is_reported_with_what_differs(changed: dict[str, Any], said: str) -> None:
    mismatch = find_mismatch(RECORDED, record(WORKLOAD, CONFIG | changed))
    assert mismatch is not None
    assert mismatch.reason == f"the records have another config under this name: {said}"


@pytest.mark.parametrize(
    "now",
    [
        RECORDED,
        record(),
        record(WORKLOAD),
        record(None, CONFIG),
        record(WORKLOAD | {"cudnn_allow_tf32": True}, CONFIG),
        record(WORKLOAD | {"optimizer_options": {"lr": "0.001", "fused": "None"}}, CONFIG),
        record(WORKLOAD, CONFIG | {"hook_options": {"matrix_approximation_rank": "1", "warm_start": "True"}}),
    ],
    ids=["equal", "none", "workload only", "config only", "unknown before", "new option", "new option of the hook"],
)
def test_what_is_missing_on_one_side_is_no_difference(now: TestRecord) -> None:
    assert find_mismatch(RECORDED, now) is None
    assert find_mismatch(now, RECORDED) is None


def test_of_many_differences_some_are_named() -> None:
    changed = {"batch_size": 4, "sample": [], "optimizer": "AdamW", "buffers_sha256": "c", "find_unused_parameters": 1}
    now = record({**WORKLOAD, **changed, "find_unused_parameters": True}, CONFIG | {"feed": "loader"})
    mismatch = find_mismatch(RECORDED, now)
    assert mismatch is not None
    assert mismatch.what == "workload and config"
    assert mismatch.reason.endswith(" and 2 more")
