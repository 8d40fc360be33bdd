"""How GPUs are linked: the header and the record of machines as people have posted them, the limits of links, peaks."""

from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from fixtures.machine.topology import (
    Arithmetic,
    Device,
    Machine,
    UnusableGpus,
    bits,
    crossed,
    gpus,
    header_lines,
    host_link_gb_per_s,
    means_no_gpu,
    nvml,
    pcie_gb_per_s,
    peak_flops,
    query,
    read_machine,
    unsupported_gpus,
)
from fixtures.matrix.recorded import json_of

# `nvidia-smi topo -m` and `nvidia-smi nvlink -s` in github.com/NVIDIA/nccl/issues/1608: two GPUs joined by a bridge,
# with 12 of 18 NVLinks active, and one by itself. Made up is what the post does not show: its NVLinks, and peer access.
H100_NVL = Machine(
    devices=(
        Device(name="NVIDIA H100 NVL", nvlinks=18, nvlinks_active=12, numa_node=0, cpus="0-15,32-47"),
        Device(name="NVIDIA H100 NVL", nvlinks=18, nvlinks_active=12, numa_node=0, cpus="0-15,32-47"),
        Device(name="NVIDIA H100 NVL", nvlinks=18, nvlinks_active=0, numa_node=1, cpus="16-31,48-63"),
    ),
    links={(0, 1): "nv12", (0, 2): "sys", (1, 2): "sys"},
    p2p={(0, 1): "ok", (0, 2): "chipset not supported", (1, 2): None},
)
PCIE = {"pcie_generation": 5, "pcie_max_generation": 5, "pcie_width": 16, "pcie_max_width": 16}
# The matrix in github.com/NVIDIA/nccl-tests/issues/333: 8 x B200, NV18 between every pair, four on each side.
B200 = Machine(
    devices=tuple(
        Device(
            name="NVIDIA B200",
            nvlinks=18,
            nvlinks_active=18,
            numa_node=number // 4,
            cpus=("0-55,112-167", "56-111,168-223")[number // 4],
            **PCIE,
        )
        for number in range(8)
    ),
    links={(a, b): "nv18" for b in range(8) for a in range(b)},
    p2p={(a, b): "ok" for b in range(8) for a in range(b)},
)


def test_a_uniform_machine_is_three_lines_and_pairs_that_differ_are_counted() -> None:
    assert header_lines(B200) == [
        "GPUs: 8 x NVIDIA B200; between pairs: 28 x NV18; 8 x 18 of 18 NVLinks up",
        "PCIe: 8 x gen 5 x16",
        "host: GPU 0-3 at NUMA node 0, CPUs 0-55,112-167; GPU 4-7 at NUMA node 1, CPUs 56-111,168-223",
    ]
    assert header_lines(H100_NVL) == [
        "GPUs: 3 x NVIDIA H100 NVL; between pairs: 1 x NV12, 2 x SYS (SYS crosses the link between "
        "NUMA nodes, UPI or Infinity Fabric); no peer access in 1 of 3: chipset not supported; "
        "2 x 12 of 18 NVLinks up, 1 x 0 of 18 NVLinks up",
        "host: GPU 0-1 at NUMA node 0, CPUs 0-15,32-47; GPU 2 at NUMA node 1, CPUs 16-31,48-63",
    ]


def test_a_pcie_link_below_its_best_stands_next_to_it_and_what_is_unknown_is_left_out() -> None:
    slow = replace(B200.devices[0], pcie_generation=3, pcie_width=8)
    assert header_lines(replace(B200, devices=(slow, *B200.devices[1:])))[1] == (
        "PCIe: 1 x gen 3 x8 (of gen 5 x16), 7 x gen 5 x16"
    )
    assert header_lines(Machine(devices=(Device(name="NVIDIA L40S"),), links={}, p2p={})) == ["GPUs: NVIDIA L40S"]


def test_the_record_has_the_matrix_of_nvidia_smi() -> None:
    record = json_of(H100_NVL.topology)
    assert record["matrix"] == [["X", "NV12", "SYS"], ["NV12", "X", "SYS"], ["SYS", "SYS", "X"]]
    assert record["p2p"] == {"0-1": "ok", "0-2": "chipset not supported", "1-2": None}
    assert (record["links"], record["peer_access"]) == ("1 x NV12, 2 x SYS", "1 x ok, 1 x chipset not supported")
    assert record["devices"][2]["cpus"] == "16-31,48-63"


@pytest.mark.parametrize(("words", "numbers"), [([], []), ([0], []), ([0b101], [0, 2]), ([0, 1 << 63 | 1], [64, 127])])
def test_a_mask_of_cpus_is_their_numbers(words: list[int], numbers: list[int]) -> None:
    assert bits(words) == numbers


needs_no_gpu = pytest.mark.skipif(len(gpus()) > 0, reason="this machine has a GPU")


@needs_no_gpu
def test_without_a_gpu_there_is_nothing_to_say() -> None:
    assert read_machine() == Machine(devices=(), links={}, p2p={})
    assert header_lines(read_machine()) == []
    with nvml() as there:
        assert (there, query(pynvml.nvmlDeviceGetCount)) == (False, None)


@pytest.mark.parametrize(
    ("error", "devices", "no_gpu"),
    [
        ("LIBRARY_NOT_FOUND", [], True),
        ("DRIVER_NOT_LOADED", ["null", "nvidiactl"], True),
        ("LIBRARY_NOT_FOUND", ["nvidia0"], False),
        ("DRIVER_NOT_LOADED", ["nvidia3"], False),
        *((other, [], False) for other in ("LIB_RM_VERSION_MISMATCH", "NO_PERMISSION", "GPU_IS_LOST", "UNKNOWN")),
    ],
)
def test_only_without_driver_and_device_there_is_no_gpu(
    tmp_path: Path, error: str, devices: list[str], no_gpu: bool
) -> None:
    for name in devices:
        (tmp_path / name).touch()
    assert means_no_gpu(pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{error}")), tmp_path) == no_gpu


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has NVIDIA's library")
def test_a_container_with_a_gpu_and_without_its_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    with pytest.raises(UnusableGpus, match=r"NVML cannot be opened: .+; to measure the CPU instead"), nvml(tmp_path):
        pass


@needs_no_gpu
def test_hidden_gpus_are_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with nvml(tmp_path) as there:
        assert not there


@pytest.mark.parametrize(
    ("links", "meaning"),
    [
        ({"nv18"}, ""),
        ({"unknown"}, ""),
        ({"phb"}, "traffic crosses the PCIe host bridge of the CPU"),
        ({"pix", "nv4"}, "PIX crosses one PCIe switch"),
        ({"node", "pix"}, "NODE crosses PCIe host bridges of one NUMA node, PIX crosses one PCIe switch"),
        ({"pxb"}, "traffic crosses several PCIe switches, not the CPU"),
    ],
)
def test_what_traffic_crosses_is_reported_for_each_kind_of_link_but_nvlink(links: set[str], meaning: str) -> None:
    assert crossed(links) == meaning


def test_gpus_of_amd_and_intel_are_named_by_what_shows_them(tmp_path: Path) -> None:
    assert unsupported_gpus("2.14.1+cu130", tmp_path) == ""
    for number, (vendor, kind) in enumerate([("0x8086", "0x030000"), ("0x8086", "0x038000"), ("0x10de", "0x038000")]):
        device = tmp_path / f"sys/class/drm/card{number}/device"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    (tmp_path / "sys/class/drm/card1-DP-1").mkdir()
    assert unsupported_gpus("2.14.1", tmp_path) == "Intel (/sys/class/drm/card1)"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert unsupported_gpus("2.14.1+rocm7.0", tmp_path).startswith("AMD (torch 2.14.1+rocm7.0, /dev/kfd) and Intel (")
    assert unsupported_gpus("2.14.1+xpu", tmp_path).endswith("and Intel (torch 2.14.1+xpu, /sys/class/drm/card1)")


# The limit of copies between host and device


@pytest.mark.parametrize(
    ("generation", "width", "limit"),
    [
        (1, 16, 4),
        (3, 16, 15.754),
        (4, 16, 31.508),
        (5, 16, 63.015),
        (5, 8, 31.508),
        (6, 16, 121),
        (7, 16, None),
        (None, 16, None),
        (5, None, None),
        (5, 0, None),
    ],
)
def test_the_limit_is_the_rate_of_a_lane_times_the_lanes(
    generation: int | None, width: int | None, limit: float | None
) -> None:
    assert pcie_gb_per_s(generation, width) == (None if limit is None else pytest.approx(limit, rel=1e-4))


def machine(*widths: int | None) -> Machine:
    devices = (
        Device(name="GPU", pcie_generation=1, pcie_max_generation=5, pcie_width=width, pcie_max_width=16)
        for width in widths
    )
    return Machine(devices=tuple(devices), links={}, p2p={})


def test_the_narrowest_link_counts_and_all_must_be_known() -> None:
    assert host_link_gb_per_s(machine(16, 8)) == pytest.approx(31.508, rel=1e-4)
    assert host_link_gb_per_s(machine(16, None)) is None
    assert host_link_gb_per_s(machine()) is None


# The peak of a GPU by the name that NVML reports


@pytest.mark.parametrize(
    ("name", "arithmetic", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", "fp32", 67),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756.5),
        ("NVIDIA H100 NVL", "tf32", 417.5),
        ("NVIDIA H200", "tf32", 494.5),
        ("NVIDIA H200 NVL", "fp32", 60),
        ("NVIDIA GB200", "bf16", 2500),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156),
        ("NVIDIA A100 80GB PCIe", "bf16", 312),
        ("NVIDIA L40S", "bf16", 362),
        ("NVIDIA L40", "bf16", 181),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA A10G", "bf16", 70),
        ("NVIDIA A10", "bf16", 125),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-32GB", "fp32", 14),
        ("Tesla T4", "fp16", 65),
        # Without TF32 it computes in FP32.
        ("Tesla T4", "tf32", 8.1),
        ("Tesla T4", "fp32", 8.1),
        ("Tesla T4", "bf16", None),
        # These names only resemble another.
        *((name, "fp32", None) for name in ("NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA A1000", "NVIDIA H100")),
        *((name, "fp32", None) for name in ("NVIDIA T400", "")),
    ],
)
def test_a_gpu_has_the_peak_of_its_datasheet(name: str, arithmetic: Arithmetic, tflops: float | None) -> None:
    assert peak_flops(name, arithmetic) == (None if tflops is None else pytest.approx(1e12 * tflops))
