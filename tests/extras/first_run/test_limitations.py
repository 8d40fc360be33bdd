"""Limitations of a machine, by its own reports."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fixtures.extras.first_run.limitations import limitations
from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_state import GpuWarning
from fixtures.records.schema import CanariesRecord, EnvironmentRecord, TestRecord, TimesRecord

DEVICE = {
    "name": "NVIDIA H200",
    "nvlinks_active": 18,
    "pcie_generation": 5,
    "pcie_max_generation": 5,
    "pcie_width": 16,
    "pcie_max_width": 16,
}
TOPOLOGY = {"links": "NV18", "p2p": {"0-1": "ok"}, "devices": [DEVICE, DEVICE]}
SETTINGS = {"power_limit_w": 700.0, "default_power_limit_w": 700.0}


def environment(
    *devices: dict[str, Any], settings: tuple[dict[str, Any], ...] = (SETTINGS,) * 2, **topology: Any
) -> EnvironmentRecord:
    fields = {**TOPOLOGY, **({"devices": list(devices)} if devices else {}), **topology}
    return msgspec.convert(
        {"topology": fields, "gpu_settings": list(settings), "variables": {"NCCL_P2P_DISABLE": "1"}}, EnvironmentRecord
    )


def said(*arguments: Any, **more: Any) -> list[str]:
    return [f"{one.kind}: {one.message}" for one in limitations(*arguments, **more)]


RECORDS = [environment()]


def test_nothing_is_reported_about_a_machine_that_is_fine_or_unknown() -> None:
    assert said(environment(), records=RECORDS) == []
    assert said(EnvironmentRecord(), records=RECORDS) == []
    assert said(environment(DEVICE | {"pcie_width": None}, settings=({},), p2p={"0-1": None})) == []


HALF = {**DEVICE, "pcie_width": 8}
SLOT, SLOT_4 = {**HALF, "pcie_max_width": 8}, {**DEVICE, "pcie_max_generation": 4}
LOW_POWER = {**SETTINGS, "power_limit_w": 350.0}
NO_PEER_TO_PEER = (
    "p2p: peer-to-peer is off in 1 of 1 pair of GPUs (chipset not supported): traffic goes through host memory"
)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (environment(HALF, DEVICE), "pcie: the PCIe link is x8 of x16 (GPU 0)"),
        (environment(SLOT, SLOT), "pcie: the PCIe link is x8 of x16 (GPU 0-1)"),
        (environment(DEVICE, SLOT_4), "pcie: the PCIe link allows generation 4 of 5 (GPU 1)"),
        (environment(DEVICE, DEVICE | {"nvlinks_active": 17}), "nvlink: 17 of 18 NVLinks are up (GPU 1)"),
        (environment(DEVICE | {"pcie_generation": 1}), None),  # an idle GPU lowers its generation
        (environment(settings=(LOW_POWER, SETTINGS)), "power: power limit 350 W of 700 W (GPU 0)"),
        (environment(p2p={"0-1": "chipset not supported"}, links="SYS"), NO_PEER_TO_PEER),
        (environment(links="SYS"), "p2p: the GPUs are linked by SYS, in the records by NV18"),
    ],
    ids=["half width", "half slot", "generation", "NVLink", "idle", "power", "no peer access", "links"],
)
def test_a_limitation_has_its_numbers_and_its_place(now: EnvironmentRecord, says: str | None) -> None:
    assert said(now, records=RECORDS) == ([] if says is None else [says])


def over(*transports: str, interconnect: str = "native") -> list[TestRecord]:
    return [
        TestRecord(workload="w", launch_medians_s=[1.0], interconnect=interconnect, transport={name: 8})
        for name in transports
    ]


def test_nccl_may_leave_peer_to_peer_out_though_the_gpus_can() -> None:
    says = "p2p: NCCL uses SHM instead of peer-to-peer (NCCL_P2P_DISABLE=1)"
    assert said(environment(), over("SHM/direct/direct", "SHM/direct/direct")) == [says]
    assert said(environment(), over("P2P/CUMEM")) == said(environment(), over("SHM", interconnect="shm")) == []
    (between_machines,) = over("NET/Socket")
    assert said(environment(), [replace(between_machines, world="16gpu_2node")]) == []


def canaries(name: str, before_s: float, after_s: float, world: str = "2gpu") -> dict[str, CanariesRecord]:
    times = {name: TimesRecord(before_s=[before_s], after_s=[after_s])}
    return {"native": CanariesRecord(world=world, canaries=times)}


PRODUCT, ELSE = "matrix_product_4096", "after the tests than before them: is something else running? nvidia-smi"


@pytest.mark.parametrize(
    ("timed", "says"),
    [
        (canaries(PRODUCT, 1.0, 1.3), f"matrix product 30 % slower {ELSE}"),
        (canaries("device_to_device_copy_256mb", 1.25, 1.0), f"copy within GPU memory 20 % faster {ELSE}"),
        (canaries(PRODUCT, 1.0, 1.3, world="16gpu_2node"), f"matrix product 30 % slower {ELSE}"),
        (canaries(PRODUCT, 1.0, 1.04), None),
        (canaries("host_to_device_copy_64mb", 1.0, 1.3), None),
        (canaries("matrix_product_256", 1.0, 1.3, world="2cpu"), None),
    ],
)
def test_a_canary_that_jumps_during_the_run_is_a_sign_of_a_neighbour(
    timed: dict[str, CanariesRecord], says: str | None
) -> None:
    assert said(environment(), (), timed) == ([] if says is None else [f"neighbour: {says}"])


def test_warnings_about_the_gpus_are_limitations() -> None:
    warnings = [GpuWarning(kind="neighbour", message="GPU 1: another process (pid 4711) uses 43 % of the SMs, 2.1 GB")]
    assert said(environment(HALF, DEVICE), warnings=warnings) == [
        "pcie: the PCIe link is x8 of x16 (GPU 0)",
        f"neighbour: {warnings[0].message}",
    ]


def test_a_host_is_busy_from_a_quarter_of_its_cores_on() -> None:
    says = ["host: other processes used 0.6 of 2 cores"]
    assert said(EnvironmentRecord(), load=HostLoad(others=0.6, cores=2)) == says
    assert said(EnvironmentRecord(), load=HostLoad(others=0.5, cores=2)) == []
