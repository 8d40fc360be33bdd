"""The checks of the GPUs by ``--doctor``, on GPUs of which one has a fault."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras.doctor.findings import findings
from fixtures.extras.doctor.gpu_checks import GPU_CHECKS, GpuMachine, read_gpu_machine
from fixtures.extras.doctor.gpu_condition import GpuCondition, pci_address
from fixtures.extras.doctor.host_checks import Host
from fixtures.machine.gpu_links import Machine
from fixtures.machine.gpu_state import GpuSettings, OtherProcess, Reading
from tests.extras.doctor.fake_host import write_host
from tests.unit.machine.test_gpu_links import B200, H100_NVL

QUIET = GpuCondition(
    uncorrected_errors=0,
    repair_pending=False,
    repair_failed=False,
    persistent=True,
    compute_mode="default",
    default_application_sm_mhz=1830,
    used_bytes=4_000_000,
    busy_percent=0,
    processes=(),
)
NEIGHBOUR = {"processes": (OtherProcess(pid=4711, memory_bytes=2_100_000_000),), "busy_percent": 50}
HOT = {"reasons": ("hardware thermal slowdown", "power cap"), "temperature_c": 91}
SETTINGS = GpuSettings(power_limit_w=1000, default_power_limit_w=1000, application_sm_mhz=1830, max_sm_mhz=1965)


@pytest.fixture
def healthy(tmp_path: Path) -> GpuMachine:
    """Eight B200s of which nothing is wrong."""
    root = write_host(tmp_path, {"proc/self/status": "Cpus_allowed_list:\t0-223"})
    return GpuMachine(
        driver="580.159.04",
        driver_cuda=(13, 0),
        host=Host(gpus=8, root=root, temporary=root, variables={}, torch=None),
        machine=B200,
        settings=(SETTINGS,) * 8,
        readings=(Reading(reasons=("idle",), temperature_c=30),) * 8,
        conditions=(QUIET,) * 8,
    )


def bad(source: GpuMachine) -> list[tuple[str, str]]:
    return [(fact.grade, fact.message) for _, fact in findings(GPU_CHECKS, source) if fact.grade != "ok"]


def test_healthy_gpus_have_facts_and_nothing_bad(healthy: GpuMachine) -> None:
    assert bad(healthy) == []
    not_reported = {"settings": (GpuSettings(),) * 8, "readings": (Reading(),) * 8, "conditions": (GpuCondition(),) * 8}
    assert bad(replace(healthy, **not_reported)) == []  # type: ignore[arg-type]
    assert [fact.message for _, fact in findings(GPU_CHECKS, healthy)] == [
        "driver 580.159.04 for CUDA 13.0",
        "GPUs: 8 x NVIDIA B200; between pairs: 28 x NV18; 8 x 18 of 18 NVLinks up",
        "PCIe: 8 x gen 5 x16",
        "host: GPU 0-3 at NUMA node 0, CPUs 0-55,112-167; GPU 4-7 at NUMA node 1, CPUs 56-111,168-223",
        "shipped records of GPUs linked by NV18 say how much runs vary, from the first baseline on",
        "nothing else uses the GPUs",
        "uncorrected ECC errors since the driver was loaded: none",
    ]


def test_links_of_no_shipped_record_are_named_with_those_that_have_some(healthy: GpuMachine) -> None:
    facts = [fact.message for _, fact in findings(GPU_CHECKS, replace(healthy, machine=H100_NVL))]
    assert [fact for fact in facts if "shipped record" in fact] == [
        "no shipped record of GPUs linked by NV12 and SYS, only by NV18: three baselines of your own say how much runs "
        "vary (docs/how-to/hand-in-records.md)"
    ]


@pytest.mark.parametrize(
    ("field", "of_gpu_2", "grade", "says"),
    [
        ("conditions", {"uncorrected_errors": 3}, "error", "uncorrected ECC errors since the driver was loaded: 3"),
        ("conditions", {"repair_pending": True}, "warning", "memory is repaired on the next reset"),
        ("conditions", {"repair_failed": True}, "error", "faulty memory can no longer be repaired"),
        ("conditions", {"persistent": False}, "warning", "persistence mode is off"),
        ("conditions", {"compute_mode": "exclusive process"}, "error", "compute mode exclusive process"),
        ("conditions", {"default_application_sm_mhz": 1965}, "warning", "application clock 1830 of 1965 MHz"),
        ("conditions", {"busy_percent": 97}, "warning", "busy 97 % of the time with 0.0 GB in use"),
        ("conditions", {"used_bytes": 9_000_000_000}, "warning", "busy 0 % of the time with 9.0 GB in use"),
        ("conditions", NEIGHBOUR, "warning", "another process (pid 4711) is running, 2.1 GB"),
        ("settings", {"power_limit_w": 700}, "warning", "power limit 700 W of 1000 W"),
        ("readings", HOT, "warning", "hardware thermal slowdown at 91 C"),
    ],
)
def test_a_fault_of_one_gpu_is_named_with_the_gpu(
    field: str, of_gpu_2: dict[str, Any], grade: str, says: str, healthy: GpuMachine
) -> None:
    values = getattr(healthy, field)
    changed: dict[str, Any] = {field: (*values[:2], replace(values[2], **of_gpu_2), *values[3:])}
    assert bad(replace(healthy, **changed)) == [(grade, f"{says} (GPU 2)")]


FIVE = replace(B200.devices[5], nvlinks_active=16, pcie_width=8)
NO_ACCESS = "peer-to-peer is off in"
OTHER_MODEL = (*B200.devices[:7], replace(B200.devices[7], name="NVIDIA L4"))


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (
            replace(B200, devices=(*B200.devices[:5], FIVE, *B200.devices[6:])),
            ["16 of 18 NVLinks are up (GPU 5)", "the PCIe link is x8 of x16 (GPU 5)"],
        ),
        (H100_NVL, [f"{NO_ACCESS} 1 of 3 pairs of GPUs (chipset not supported)", "0 of 12 NVLinks are up (GPU 2)"]),
        (replace(B200, devices=OTHER_MODEL), ["GPUs of 2 models: NVIDIA B200, NVIDIA L4"]),
    ],
    ids=["links of one GPU", "no access to each other", "two models"],
)
def test_gpus_are_compared_with_each_other(machine: Machine, says: list[str], healthy: GpuMachine) -> None:
    assert bad(replace(healthy, machine=machine)) == [("warning", line) for line in says]


@pytest.mark.parametrize(("link", "is_slower"), [("phb", True), ("nv18", False)])
def test_an_iommu_between_gpus_without_nvlink(link: str, is_slower: bool, healthy: GpuMachine) -> None:
    modes = ("identity", "DMA-FQ", "DMA")
    for number, mode in enumerate(modes):
        write_host(healthy.host.root, {f"sys/bus/pci/devices/0000:1{number}:00.0/iommu_group/type": mode})
    conditions = tuple(replace(QUIET, pci_address=f"0000:1{number}:00.0") for number in range(8))
    machine = replace(B200, links=dict.fromkeys(B200.links, link))
    says = [("warning", "the IOMMU translates its addresses (GPU 1-2)")]
    assert bad(replace(healthy, conditions=conditions, machine=machine)) == (says if is_slower else [])


def test_a_pci_address_is_written_as_by_the_kernel() -> None:
    assert pci_address("00000000:1B:00.0") == "0000:1b:00.0"
    assert pci_address("00010001:0A:00.0") == "10001:0a:00.0"


def test_a_process_far_from_half_of_the_gpus(healthy: GpuMachine) -> None:
    write_host(healthy.host.root, {"proc/self/status": "Cpus_allowed_list:\t0-31"})
    assert bad(healthy) == [("warning", "this process may not use the nearest CPUs, 56-111,168-223 (GPU 4-7)")]


@pytest.mark.parametrize(("cuda", "is_too_new"), [("12.8", False), ("13.1", False), ("14.0", True)])
def test_a_driver_that_is_too_old_for_torch(cuda: str, is_too_new: bool, tmp_path: Path, healthy: GpuMachine) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '2.99.0'\ncuda: Optional[str] = '{cuda}'\n")
    source = replace(healthy, host=replace(healthy.host, torch=tmp_path))
    says = [("error", f"driver 580.159.04 for CUDA 13.0, torch is built for CUDA {cuda}")]
    assert bad(source) == (says if is_too_new else [])


def test_a_machine_without_gpus_is_one_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [fact.message for _, fact in findings(GPU_CHECKS, read_gpu_machine())] == [
        "no GPU: the CPU is measured, over gloo"
    ]
