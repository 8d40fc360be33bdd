"""Traces of other accelerators, in the forms that torch.profiler and vendors write."""

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras.explain.recordings import read_chrome
from fixtures.trace.timeline import BadTrace

STEP = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 900}


def read(folder: Path, *events: dict[str, Any]) -> None:
    file = folder / "trace.json"
    file.write_text(json.dumps([STEP, *events]))
    read_chrome(file)


def at(category: str, name: str = "work") -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 10, "dur": 20}


def process(name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": 4, "args": {"name": name}}


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([at("kernel"), at("mtia_ccp_events"), at("mtia_runtime")], "mtia_ccp_events"),
        ([at("XPU_driver")], "xpu_driver"),
        ([at("newchip_runtime")], "newchip_runtime"),
        ([process("Ascend Hardware"), {"ph": "X", "name": "MatMul", "ts": "16995.3", "dur": 2}], "Ascend Hardware"),
        ([process("/device:TPU:0"), at("")], "/device:TPU"),
    ],
)
def test_another_accelerator_is_refused_by_name(tmp_path: Path, events: list[dict[str, Any]], named: str) -> None:
    with pytest.raises(BadTrace, match=r"comes from another accelerator \(") as raised:
        read(tmp_path, *events)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    "events",
    [
        [at("cpu_op"), at("user_annotation", "gloo:all_reduce")],
        [at("cpu_op"), at("python_function"), at("cpu_instant_event"), at("cuda_runtime", "cudaGetDeviceCount")],
        [at("kernel"), at("gpu_memcpy"), at("cuda_driver"), at("user_annotation", "nccl:all_reduce")],
        [at("Kernel"), at("Runtime"), at("Memcpy"), at("Trace"), at("overhead"), at("io_wait")],
        [process("/device:GPU:0"), process("python"), at("cpu_op")],
    ],
)
def test_cpus_and_the_gpus_of_nvidia_and_amd_are_read(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    read(tmp_path, *events)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (at("cuda_runtime", "cudaLaunchKernelExC"), r"\(1 x cudaLaunchKernelExC\): record the GPU too"),
        (at("cuda_runtime", "hipExtModuleLaunchKernel"), r"\(1 x hipExtModuleLaunchKernel\)"),
        (at("user_annotation", "nccl:all_to_all"), r"\(1 x nccl:all_to_all\): record the GPU too \(ProfilerActivity"),
    ],
)
def test_the_hosts_part_of_a_step_on_gpus_is_not_a_step_on_the_cpu(
    tmp_path: Path, event: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadTrace, match=says):
        read(tmp_path, at("cpu_op"), event)
