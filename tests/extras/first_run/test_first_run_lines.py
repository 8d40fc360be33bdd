"""What a first run is expected to reach, what limits it, and its lines."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fixtures.extras.first_run.expectations import (
    Expectation,
    PastRun,
    Population,
    Quantity,
    Rate,
    expectations,
    links_of,
    quantities,
    read_population,
)
from fixtures.extras.first_run.plugin import FirstRun, Limitation, first_run_lines, limitations
from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_state import GpuWarning
from fixtures.machine.topology import Topology
from fixtures.records.schema import CanariesRecord, EnvironmentRecord, TestRecord, TimesRecord
from tests.builders import TRAINED

COMMITTED = Path(__file__).parents[3] / "baselines"
H200 = read_population(COMMITTED, "NVIDIA H200")


FOUR = tuple(run for run in H200.runs if run.instance == "4x-nvidia-h200-nv18")


def timed(world: str, links: str | None = "NV18", interconnect: str = "native", **canaries: float) -> list[Quantity]:
    """A run of these canaries alone, in s."""
    times = {name: TimesRecord(before_s=[time_s] * 3, after_s=[time_s]) for name, time_s in canaries.items()}
    environment = EnvironmentRecord(topology=Topology(links=links))
    return quantities(environment, {interconnect: CanariesRecord(world=world, canaries=times)}, ())


def test_the_records_of_one_gpu_are_a_population_without_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert (len(H200.runs), len(H200.instances)) == (25, 6)
    assert read_population(COMMITTED, "NVIDIA L40S").runs == ()
    assert read_population(COMMITTED / "nowhere", "NVIDIA H200").runs == ()
    shutil.copytree(COMMITTED / "8x-nvidia-h200-nv18", tmp_path / "8x-nvidia-h200-nv18")
    (tmp_path / "8x-nvidia-h200-nv18/0001_vit.json").write_text('{"schema": 1')
    assert len(read_population(tmp_path, "NVIDIA H200").runs) == 2


@pytest.mark.parametrize("instance", H200.instances)
def test_no_run_of_the_records_is_low_next_to_the_other_instances(instance: str) -> None:
    others = replace(H200, runs=tuple(run for run in H200.runs if run.instance != instance))
    for run in (run for run in H200.runs if run.instance == instance):
        compared = expectations(run.quantities, others)
        assert len(compared) >= 4
        assert [one.quantity.rate.label for one in compared if one.is_low] == []


@pytest.mark.parametrize(
    ("canary", "factor"),
    [
        ("matrix_product_4096", 1.06),
        ("device_to_device_copy_256mb", 1.07),
        ("host_to_device_copy_64mb", 2.0),
        ("all_reduce_64mb", 1.15),
        ("kernel_launches_1000", 3.0),
    ],
)
def test_a_number_that_is_lower_by_more_than_records_differ_is_low(canary: str, factor: float) -> None:
    slow = [
        replace(one, rate=replace(one.rate, value=one.rate.value / factor)) if one.name == canary else one
        for one in FOUR[-1].quantities
    ]
    assert [one.quantity.name for one in expectations(slow, H200) if one.is_low] == [canary]


def test_rates_are_those_of_data_sheets() -> None:
    now = timed("8gpu", matrix_product_4096=2.684e-3, host_to_device_copy_64mb=1.17e-3, all_reduce_64mb=3.53e-4)
    assert {one.name: f"{one.rate.value:.1f} {one.rate.unit}" for one in now} == {
        "matrix_product_4096": "51.2 TFLOP/s",
        "host_to_device_copy_64mb": "54.7 GB/s",
        "all_reduce_64mb": "317.3 GB/s",
    }


def test_canaries_of_an_unknown_kind_or_of_the_cpu_are_no_quantities() -> None:
    assert timed("2gpu", matrix_product_bf16=1e-3, all_reduce_64kb=1e-5, sparse_product_4096=1e-3) == []
    assert timed("2cpu", matrix_product_256=1e-4, all_reduce_4mb=3e-3, memory_copy_16mb=2e-3) == []


@pytest.mark.parametrize(
    ("canary", "interconnect", "ranks"),
    [
        # A copy from the host: as many ranks or the next more. Bus bandwidth: as many or the next fewer.
        ("host_to_device_copy_64mb", "native", {1: [2], 2: [2], 3: [4], 8: [8], 16: []}),
        ("all_reduce_64mb", "native", {2: [2], 3: [2], 6: [4], 16: [8]}),
        # Latency, and what goes through the host: as many.
        ("all_reduce_1mb", "native", {4: [4], 6: []}),
        ("all_reduce_64mb", "shm", {4: [4], 6: []}),
    ],
)
def test_records_of_which_numbers_of_gpus_a_canary_is_compared_with(
    canary: str, interconnect: str, ranks: dict[int, list[int]]
) -> None:
    for size, expected in ranks.items():
        found = expectations(timed(f"{size}gpu", interconnect=interconnect, **{canary: 1e-3}), H200)  # type: ignore[arg-type]
        assert [{record.ranks for record in one.records} for one in found] == [{one} for one in expected], size


def test_the_same_links_come_first_and_others_are_better_than_none() -> None:
    pcie = replace(FOUR[0], instance="4x-pcie", quantities=tuple(timed("4gpu", "SYS", all_reduce_64mb=3e-3)))
    both = replace(H200, runs=(*H200.runs, pcie))
    now = timed("4gpu", "SYS", all_reduce_64mb=3e-3)
    ((of_both,), (of_others,)) = expectations(now, both), expectations(now, H200)
    assert of_both.expected == pytest.approx(32)
    assert of_others.expected > 300


def test_what_a_canary_of_two_interconnects_times_on_one_gpu_counts_once() -> None:
    now = [
        *timed("4gpu", matrix_product_4096=2.7e-3, all_reduce_64mb=3e-4),
        *timed("4gpu", interconnect="shm", matrix_product_4096=2.7e-3, all_reduce_64mb=4e-3),
    ]
    names = [one.quantity.name for one in expectations(now, H200)]
    assert names == ["matrix_product_4096", "all_reduce_64mb", "all_reduce_64mb"]


def of_single(**more: object) -> list[Quantity]:
    info = TestRecord(
        workload="vit_l_32",
        config="single",
        world_size=1,
        backend="nccl",
        interconnect="native",
        launch_medians_s=[0.1],
        steps_per_s=10.0,
        **more,  # type: ignore[arg-type]
    )
    return quantities(EnvironmentRecord(), {}, [info])


def test_the_step_of_one_gpu_is_compared_with_that_of_every_instance_unless_the_host_limits_it() -> None:
    assert of_single(host_lead_ms=0.1) == []
    (one,) = expectations(of_single(), H200)
    assert one.expected == pytest.approx(11.93, abs=0.01)
    assert len(one.records) >= 15
    assert one.is_low


def test_a_test_of_another_workload_under_the_same_name_is_not_compared() -> None:
    now, other = (of_single(workload_fingerprint=replace(TRAINED, batch_size=size)) for size in (32, 64))
    population = replace(H200, runs=(replace(H200.runs[0], quantities=tuple(now)),))
    assert [len(expectations(one, population)) for one in (now, other)] == [1, 0]


def test_two_records_say_nothing_about_how_far_machines_lie_apart() -> None:
    now = timed("4gpu", host_to_device_copy_64mb=1.5e-3)
    (one,) = expectations(now, replace(H200, runs=FOUR[:2]))

    def low(percent: float) -> bool:
        rate = replace(now[0].rate, value=one.expected * (1 - percent / 100))
        return replace(one, quantity=replace(now[0], rate=rate)).is_low

    assert (low(19), low(21)) == (False, True)


@pytest.mark.parametrize(
    ("links", "kinds"), [("4 x NV4, 24 x SYS", {"NV4", "SYS"}), ("", set()), (" ", set()), ("1 x NV18,  ", {"NV18"})]
)
def test_kinds_of_links_are_read_where_there_are_some(links: str, kinds: set[str]) -> None:
    assert links_of(EnvironmentRecord(topology=Topology(links=links))) == kinds


# The paragraph on a run without a baseline, where no whole run shows it: runs/test_first_run.py has the rest


CPU = FirstRun(instances=("2x-amd-epyc",), population=None, expectations=(), limitations=(), software=())
BUSY = Limitation(kind="host", message="other processes used 1.3 of 2 cores")
LANES = Limitation(kind="pcie", message="the PCIe link is x8 of x16 (GPU 0)")
CLOCKS = Limitation(kind="clocks", message="GPU 0: SM clock 1410 of 1980 MHz")
PRODUCT = Quantity(
    name="matrix_product_4096",
    rate=Rate(label="matrix product", resource="compute", value=51.0, unit="TFLOP/s"),
    ranks=4,
    interconnect="native",
    links=frozenset({"NV18"}),
)
SLOW = replace(PRODUCT, rate=replace(PRODUCT.rate, value=45.0))
ONE = PastRun(instance="2x-nvidia-h200-nv18", environment=EnvironmentRecord(), quantities=(PRODUCT,))


def on_gpus(now: Quantity, *limitations: Limitation, software: tuple[str, ...] = ()) -> FirstRun:
    """One number next to one record."""
    return FirstRun(
        instances=("4x-nvidia-h200-nv18",),
        population=Population(device="NVIDIA H200", runs=(ONE,)),
        expectations=(Expectation(quantity=now, records=(PRODUCT,)),),
        limitations=limitations,
        software=software,
    )


def test_a_quiet_cpu_is_not_reported_and_the_load_of_the_host_is_left_to_the_line_on_the_disturbance() -> None:
    assert first_run_lines(CPU) == first_run_lines(None) == []
    assert first_run_lines(replace(CPU, limitations=(BUSY,))) == []


def test_a_gpu_without_records_or_with_others_is_no_silence() -> None:
    unknown = replace(on_gpus(PRODUCT), population=Population(device="NVIDIA L40S"), expectations=())
    assert first_run_lines(unknown) == ["No record of the same GPU (NVIDIA L40S) in the storage."]
    _, line = first_run_lines(replace(on_gpus(PRODUCT), expectations=()))
    assert line == "    they have none of the numbers of this run"


FINE = "the one number is as high as expected: matrix product 51 of 51 TFLOP/s"
NO_CAUSE = "no cause was found; look for other work and low clocks with nvidia-smi, then run again"
OTHER = "torch 2.11.0 -> 2.15.0"
LOW = "matrix product 45 of 51 TFLOP/s, 12 % lower: "


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (on_gpus(PRODUCT), FINE),
        (on_gpus(PRODUCT, CLOCKS), FINE),
        (on_gpus(SLOW, CLOCKS), LOW + CLOCKS.message),
        (on_gpus(SLOW), LOW + NO_CAUSE),
        (on_gpus(SLOW, software=(OTHER,)), LOW + f"the software differs from that of the records: {OTHER}"),
        (on_gpus(PRODUCT, LANES), f"{FINE} {LANES.message}"),
        (on_gpus(PRODUCT, BUSY), FINE),
    ],
    ids=["fine", "clocks without effect", "clocks", "no cause", "software", "unrelated", "host"],
)
def test_a_low_number_has_its_cause_or_what_to_look_at(first: FirstRun, says: str) -> None:
    head, *lines = first_run_lines(first)
    assert head == "Compared with 1 record of the same GPU (NVIDIA H200) in the storage:"
    assert all(line.startswith("    ") and len(line) <= 100 for line in lines)
    assert " ".join(" ".join(lines).split()) == says


# Limitations of a machine, by its own reports


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


MACHINE_PRODUCT, ELSE = "matrix_product_4096", "after the tests than before them: is something else running? nvidia-smi"


@pytest.mark.parametrize(
    ("timed", "says"),
    [
        (canaries(MACHINE_PRODUCT, 1.0, 1.3), f"matrix product 30 % slower {ELSE}"),
        (canaries("device_to_device_copy_256mb", 1.25, 1.0), f"copy within GPU memory 20 % faster {ELSE}"),
        (canaries(MACHINE_PRODUCT, 1.0, 1.3, world="16gpu_2node"), f"matrix product 30 % slower {ELSE}"),
        (canaries(MACHINE_PRODUCT, 1.0, 1.04), None),
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
