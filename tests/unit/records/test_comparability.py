"""Two records under one name: the same workload, config and machine, or a named difference."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fixtures.matrix.recorded import json_of
from fixtures.records.comparability import Identity, find_mismatch, identity_of, other_machine
from fixtures.records.differences import cause
from fixtures.records.schema import EnvironmentRecord, TestRecord
from tests.builders import TRAINED, known, snapshot

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
        # The workload.
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
        # The config.
        ({"ddp_arguments": {"bucket_cap_mb": "50"}}, "bucket_cap_mb 25 in the records, 50 now"),
        ({"ddp_arguments": {}}, "bucket_cap_mb 25 in the records, DDP's default now"),
        ({"hook": "bf16", "hook_options": {}}, "hook powersgd_rank1 in the records, bf16 now"),
        ({"hook_options": {"matrix_approximation_rank": "2"}}, "matrix_approximation_rank 1 in the records, 2 now"),
        ({"feed": "loader"}, "feed pinned in the records, loader now"),
        ({"ddp": False, "ddp_arguments": {}}, "ddp True in the records, False now"),
        ({"variables": {"NCCL_MAX_CTAS": "4"}}, "NCCL_MAX_CTAS unset in the records, 4 now"),
    ],
)
def test_another_workload_or_config_is_reported_with_what_differs(changed: dict[str, Any], said: str) -> None:
    of_config = changed.keys() <= CONFIG.keys() | {"variables"}
    now = record(WORKLOAD, CONFIG | changed) if of_config else record(WORKLOAD | changed, CONFIG)
    what = "config" if of_config else "workload"
    assert known(find_mismatch(RECORDED, now)).reason == f"the records have another {what} under this name: {said}"


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
    mismatch = known(find_mismatch(RECORDED, now))
    assert mismatch.what == "workload and config"
    assert mismatch.reason.endswith(" and 2 more")


# Two machines under one name: what differs, and that nothing differs where nothing is known


AT_WORK = {"sm_mhz": 1980, "max_sm_mhz": 1980, "reasons": "", "power_limit_w": 700.0}


def info(*after: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The record of a test in a world of eight. after: the GPUs after each launch."""
    launches = [{"lasted_s": 1.0, "before": {}, "after": gpus, "throttled_percent": {}} for gpus in after or (AT_WORK,)]
    return {
        "workload": "vit_l_32",
        "launch_medians_s": [0.1],
        "steps_per_s": 10.0,
        "world_size": 8,
        "transport": {"P2P/CUMEM": 16},
        "fingerprint": {"nccl": "2.28.9", "nvls_channels": 0, "tuner": None, "network": "Socket"},
        "gpu_state": {"launches": launches, "gpu_warnings": []},
        **more,
    }


SETTINGS = {"application_sm_mhz": 1980, "ecc": True, "mig": False}
ENVIRONMENT: dict[str, Any] = {
    "variables": {"OMP_NUM_THREADS": "1"},
    "nccl_backend": "ProcessGroupNCCL",
    "nccl_device_at_init": False,
    "topology": {"nvlinks": "8 x 18 of 18 up"},
    "gpu_settings": [SETTINGS] * 8,
    "cpu": "Intel(R) Xeon(R) Platinum 8480+",
    "cores": 192.0,
}


def identity(of: dict[str, Any] | None = None, **environment: Any) -> Identity:
    return identity_of(
        msgspec.convert(of or info(), TestRecord), msgspec.convert({**ENVIRONMENT, **environment}, EnvironmentRecord)
    )


def test_an_identity_has_what_changes_the_speed() -> None:
    assert identity() == {
        "NVLS": "off",
        "tuner plugin": "none",
        "NCCL back end": "ProcessGroupNCCL",
        "device at init": "not given",
        "NCCL_TUNER_PLUGIN": "unset",
        "NCCL_NET_PLUGIN": "unset",
        "power limit": "700 W",
        "SM clock": "not limited",
        "application clock": "1980 MHz",
        "ECC": "on",
        "MIG": "off",
        "NVLinks": "8 x 18 of 18 up",
        "CPU": "Intel(R) Xeon(R) Platinum 8480+",
        "cores per rank": "24",
    }


NVLS_ON = {"nccl": "2.28.9", "nvls_channels": 16, "tuner": None}
TUNED = {"nccl": "2.28.9", "nvls_channels": 0, "tuner": "nccl_ofi_tuner"}
LOCKED = {**AT_WORK, "sm_mhz": 1500}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (identity(info(fingerprint=NVLS_ON)), "NVLS on, in the records off"),
        (identity(info(fingerprint=TUNED)), "tuner plugin nccl_ofi_tuner, in the records none"),
        (identity(nccl_backend="Other"), "NCCL back end Other, in the records ProcessGroupNCCL"),
        (identity(nccl_device_at_init=True), "device at init given, in the records not given"),
        (identity(variables={"NCCL_TUNER_PLUGIN": "tuner.so"}), "NCCL_TUNER_PLUGIN tuner.so, in the records unset"),
        (identity(variables={"NCCL_NET_PLUGIN": "none"}), "NCCL_NET_PLUGIN none, in the records unset"),
        (identity(info({**AT_WORK, "power_limit_w": 500.0})), "power limit 500 W, in the records 700 W"),
        (
            identity(info({**AT_WORK, "power_limit_w": [500.0, 700.0]})),
            "power limit 500 W and 700 W, in the records 700 W",
        ),
        (identity(info(LOCKED, LOCKED)), "SM clock set to 1500 MHz, in the records not limited"),
        (
            identity(gpu_settings=[{**SETTINGS, "application_sm_mhz": 1200}] * 8),
            "application clock 1200 MHz, in the records 1980 MHz",
        ),
        (identity(gpu_settings=[{**SETTINGS, "ecc": False}] * 8), "ECC off, in the records on"),
        (identity(topology={"nvlinks": "8 x 17 of 18 up"}), "NVLinks 8 x 17 of 18 up, in the records 8 x 18 of 18 up"),
        (identity(cpu="AMD EPYC 9654"), "CPU AMD EPYC 9654, in the records Intel(R) Xeon(R) Platinum 8480+"),
        (identity(cores=32.0), "cores per rank 4, in the records 24"),
    ],
)
def test_another_machine_is_reported_with_what_differs(now: Identity, said: str) -> None:
    assert other_machine(now, [identity()]) == (said,)


@pytest.mark.parametrize(
    "now",
    [
        {},
        identity(info(fingerprint={"nccl": None, "nvls_channels": None, "tuner": None})),
        identity(info({**LOCKED, "reasons": "power cap"})),  # the hardware's own limit, which the table shows
        identity(info(LOCKED, AT_WORK)),
        identity(info({**AT_WORK, "sm_mhz": 1965})),
        identity(nccl_backend=None, nccl_device_at_init=None),  # over gloo
        identity(gpu_settings=[], cpu=None, cores=None, variables=None, topology=None),
        identity(info(fingerprint={"nccl": "2.28.9", "nvls_channels": 0, "tuner": None, "network": "IB"})),
    ],
    ids=["nothing", "later world", "power cap", "one at full clock", "a step lower", "gloo", "old", "unused network"],
)
def test_what_is_unknown_or_without_effect_is_no_difference(now: Identity) -> None:
    assert other_machine(now, [identity()]) == ()
    assert other_machine(identity(), [now]) == ()


def test_the_network_counts_where_it_carries_the_traffic() -> None:
    over = [
        identity(info(fingerprint={"nccl": "2.28.9", "network": network}, transport={f"NET/{network}": 16}))
        for network in ("IB", "Socket")
    ]
    assert other_machine(over[0], [over[1]]) == ("network IB, in the records Socket",)


def test_one_record_that_fits_does_not_hide_another_that_does_not() -> None:
    on = identity(info(fingerprint=NVLS_ON))
    assert other_machine(on, [identity(), on]) == ("NVLS on, in the records off and on",)


def test_what_differs_is_a_cause_of_a_slowdown() -> None:
    before = snapshot(info(), ENVIRONMENT)
    now = snapshot(info({**AT_WORK, "power_limit_w": 500.0}), {**ENVIRONMENT, "cores": 32.0})
    assert cause(before, now) == "+0 ms a step; power limit 700 W -> 500 W; cores per rank 24 -> 4"
