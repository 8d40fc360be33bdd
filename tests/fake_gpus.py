"""Four H200s that NVML reports, and canaries with the times of four H200s, for runs with fake ranks.

A plugin: ``pytest perf ... -p tests.fake_gpus``. What is wrong with the machine is in ``FAKE_GPUS`` of the environment,
the JSON object of ``machine``. What is not in the table NVML does not support.
"""

import json
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pynvml

from fixtures.launch.protocol import CanaryRequest
from tests import fake_ranks

FAKE_GPUS = "FAKE_GPUS"
GPUS, NVLINKS = 4, 18
# Seconds, as in baselines/4x-nvidia-h200-nv18.
CANARIES = {
    "matrix_product_4096": 2.675e-3,
    "host_to_device_copy_64mb": 1.45e-3,
    "device_to_device_copy_256mb": 1.26e-4,
    "kernel_launches_1000": 6.2e-3,
    "all_reduce_1mb": 5e-5,
    "all_reduce_64mb": 3.11e-4,
}


def machine(
    *,
    name: str = "NVIDIA H200",
    peer_to_peer: bool = True,
    pcie_width: int = 16,
    power_limit_w: int = 700,
    neighbour_percent: int | None = None,
    slower: dict[str, float] | None = None,
    compute_mode: int = pynvml.NVML_COMPUTEMODE_DEFAULT,
) -> dict[str, str]:
    """The environment of a run on this machine. slower: canary -> factor of its time."""
    given = {**locals(), "slower": slower or {}}
    return {FAKE_GPUS: json.dumps(given), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(GPUS)))}


# Any: NVML's structures.
def _answers(given: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    status = pynvml.NVML_P2P_STATUS_OK if given["peer_to_peer"] else pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED
    running = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=4_400_000_000)]
    samples = [SimpleNamespace(pid=os.getpid(), smUtil=90)]
    if given["neighbour_percent"] is not None:
        running.append(SimpleNamespace(pid=4711, usedGpuMemory=2_100_000_000))
        samples.append(SimpleNamespace(pid=4711, smUtil=given["neighbour_percent"]))
    return {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
        "nvmlDeviceGetCount": lambda: GPUS,
        "nvmlDeviceGetHandleByIndex": lambda gpu: gpu,
        "nvmlDeviceGetHandleByUUID": lambda uuid: int(uuid.removeprefix("GPU-")),
        "nvmlDeviceGetUUID": lambda gpu: f"GPU-{gpu}",
        "nvmlDeviceGetName": lambda gpu: given["name"],
        "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=f"0000:{gpu:02}:00.0"),
        "nvmlDeviceGetP2PStatus": lambda a, b, index: status,
        "nvmlDeviceGetTopologyCommonAncestor": lambda a, b: pynvml.NVML_TOPOLOGY_SYSTEM,
        "nvmlDeviceGetNvLinkState": _nvlink_state,
        "nvmlDeviceGetNvLinkRemoteDeviceType": lambda gpu, link: pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 5,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 5,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: given["pcie_width"] if gpu == 0 else 16,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
        "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 1000 * given["power_limit_w"],
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: 700_000,
        "nvmlDeviceGetComputeMode": lambda gpu: given["compute_mode"],
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: running if gpu == 1 else running[:1],
        "nvmlDeviceGetProcessUtilization": lambda gpu, since: samples if gpu == 1 else samples[:1],
    }


def _nvlink_state(gpu: int, link: int) -> int:
    if link >= NVLINKS:
        _refuse()
    return 1


def _refuse(*arguments: object, **named: object) -> NoReturn:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def pytest_load_initial_conftests() -> None:
    """For the rest of this process, before the settings of the run are read, and with them its GPUs."""
    given = json.loads(os.environ[FAKE_GPUS])
    answers = _answers(given)
    for name in dir(pynvml):
        if name.startswith("nvmlDeviceGet"):
            setattr(pynvml, name, answers.get(name, _refuse))
    for name in ("nvmlInit", "nvmlShutdown", "nvmlSystemGetDriverVersion"):
        setattr(pynvml, name, answers[name])
    fake_ranks.ANSWERS[CanaryRequest.function] = lambda world, rank, arguments: {
        name: [given["slower"].get(name, 1) * t] * 15 for name, t in CANARIES.items()
    }
