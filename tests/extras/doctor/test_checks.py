"""What the doctor finds on a host and its GPUs, and its lines."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras.doctor.gpu_checks import GPU_CHECKS, GpuCondition, GpuMachine, pci_address, read_gpu_machine
from fixtures.extras.doctor.host_checks import HOST_CHECKS, Check, Fact, Grade, Host, findings, parsed_ranges, this_host
from fixtures.extras.doctor.plugin import doctor_lines
from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_state import GpuSettings, OtherProcess, Reading
from fixtures.machine.topology import Machine
from tests.extras.doctor.fake_host import write_host
from tests.unit.machine.test_topology import B200, H100_NVL

CPU, LIMIT = "sys/devices/system/cpu", {"sys/fs/cgroup/memory.max": "4000000000"}
LIMITS = "proc/self/limits"
SOME, WAITED = "some avg10={:.2f} avg60=1 avg300=1 total=1", "processes waited for {} % of the last 10 s"
AVAILABLE, SWAP = "MemTotal: 256000000 kB\nMemAvailable: 4000000 kB", "SwapTotal: 8000000 kB\nSwapFree: 6000000 kB"
RDMA, NO_LIMIT = {"sys/class/infiniband/mlx5_0": ""}, {LIMITS: "Max locked memory  unlimited  x  bytes"}


def host(root: Path, *, gpus: int = 4) -> Host:
    return Host(gpus=gpus, root=root, temporary=root, variables={}, torch=None)


def found(source: Host, name: str) -> list[Fact]:
    return [fact for check, fact in findings(HOST_CHECKS, source) if check.name == name]


def test_a_healthy_host_has_nothing_bad_but_a_missing_torch(tmp_path: Path) -> None:
    bad = [fact.message for _, fact in findings(HOST_CHECKS, host(write_host(tmp_path))) if fact.grade != "ok"]
    assert bad == ["torch is not installed"]


def test_checks_without_their_files_are_left_out(tmp_path: Path) -> None:
    assert {check.name for check, _ in findings(HOST_CHECKS, host(tmp_path))} == {"software", "temporary files"}


def test_files_in_another_format_leave_their_checks_out(tmp_path: Path) -> None:
    root = write_host(tmp_path)
    for file in root.rglob("*"):
        if file.is_file() and file.name not in ("scaling_governor", "memory.max"):
            file.write_text("what is this\n")
    left = {check.name for check, _ in findings(HOST_CHECKS, host(root))}
    assert left == {"software", "governor", "/dev/shm", "temporary files"}


@pytest.mark.parametrize(
    ("check", "files", "grade", "says"),
    [
        ("governor", {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"}, "warning", "CPU governor powersave"),
        ("core pressure", {"proc/pressure/cpu": SOME.format(46.20)}, "warning", WAITED.format("a core 46")),
        ("memory pressure", {"proc/pressure/memory": SOME.format(12)}, "warning", WAITED.format("memory 12")),
        ("cores", {"proc/self/status": "Cpus_allowed_list:\t0-2,9"}, "warning", "4 cores for 4 ranks"),
        ("cores", {"proc/self/status": "Cpus_allowed_list:\t0-2"}, "error", "3 cores for 4 ranks"),
        ("cores", {"proc/self/status": "Cpus_allowed_list:\t2"}, "error", "1 core for 4 ranks"),
        ("quota", {"sys/fs/cgroup/cpu.max": "800000 100000"}, "warning", "the container's quota is 8 of 64 cores"),
        ("quota", {"sys/fs/cgroup/cpu.max": "350000 100000"}, "error", "the container's quota is 3.5 of 64 cores"),
        ("memory", {"proc/meminfo": AVAILABLE}, "warning", "4.1 GB of memory available for 4 ranks"),
        ("memory limit", LIMIT, "warning", "the container may use 4.0 GB of memory for 4 ranks"),
        ("swap", {"proc/meminfo": SWAP}, "warning", "2.0 of 8.2 GB of swap in use"),
        ("swap", {"proc/meminfo": "SwapTotal: 0 kB\nSwapFree: 0 kB"}, "ok", "no swap"),
        ("open files", {LIMITS: "Max open files  512  20000  files"}, "warning", "open files: at most 512"),
        ("open files", {LIMITS: "Max open files  unlimited  x  files"}, "ok", "open files: no limit"),
        (
            "processes",
            {LIMITS: "Max processes  1000  20000  processes"},
            "warning",
            "processes and threads: at most 1000",
        ),
        ("locked memory", RDMA, "warning", "locked memory: at most 8 MB, with 1 RDMA devices"),
        ("locked memory", RDMA | NO_LIMIT, "ok", "locked memory: no limit, with 1 RDMA devices"),
    ],
)
def test_what_a_check_says(check: str, files: dict[str, str], grade: str, says: str, tmp_path: Path) -> None:
    (fact,) = found(host(write_host(tmp_path, files)), check)
    assert (fact.grade, fact.message) == (grade, says)


@pytest.mark.parametrize(("others", "grade"), [(17.2, "warning"), (15.9, "ok")])
def test_other_work_on_over_a_quarter_of_the_cores_is_named_as_a_run_names_it(
    others: float, grade: str, tmp_path: Path
) -> None:
    (fact,) = found(replace(host(tmp_path), load=HostLoad(others=others, cores=64)), "load")
    assert (fact.grade, fact.message) == (grade, f"other processes used {others} of 64 cores")


def test_memory_limit_of_version_1_without_a_limit_is_no_fact(tmp_path: Path) -> None:
    root = write_host(tmp_path, {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"})
    assert found(host(root), "memory limit") == []


@pytest.mark.parametrize(
    ("free_mb", "gpus", "grade"),
    [
        *[(64, 4, "error"), (64, 1, "warning"), (64, 0, "warning")],
        *[(65, 4, "warning"), (1023, 4, "warning"), (1024, 4, "ok")],
    ],
)
def test_a_small_dev_shm(free_mb: int, gpus: int, grade: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_host(tmp_path)
    state = list(os.statvfs(root))
    state[1], state[4] = 2**20, free_mb  # f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda folder: os.statvfs_result(state))
    (fact,) = found(host(root, gpus=gpus), "/dev/shm")
    assert (fact.grade, fact.message) == (grade, f"/dev/shm has {free_mb} MB free")


def test_temporary_files_that_cannot_be_written(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    (fact,) = found(replace(host(tmp_path), temporary=gone), "temporary files")
    assert (fact.grade, fact.message) == ("error", f"cannot write in {gone}: No such file or directory")


def test_variables_that_change_every_measurement(tmp_path: Path) -> None:
    variables = {"NCCL_P2P_DISABLE": "1", "NCCL_DEBUG": "INFO", "CUDA_LAUNCH_BLOCKING": "0", "NCCL_P2P_LEVEL": "LOC"}
    says = [fact.message for fact in found(replace(host(tmp_path), variables=variables), "variables")]
    assert says == ["NCCL_P2P_DISABLE=1 is set", "NCCL_P2P_LEVEL=LOC is set"]


@pytest.mark.parametrize(("cuda", "gpus", "grade"), [("'13.0'", 4, "ok"), ("None", 0, "ok"), ("None", 4, "error")])
def test_a_build_of_torch_without_cuda_cannot_use_gpus(cuda: str, gpus: int, grade: str, tmp_path: Path) -> None:
    text = f"__version__ = '2.14.1'\ndebug = False\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n"
    (tmp_path / "version.py").write_text(text)
    (fact,) = found(replace(host(tmp_path, gpus=gpus), torch=tmp_path), "software")
    assert fact.grade == grade
    assert fact.message.startswith("torch 2.14.1")


def test_the_installed_torch_is_read_without_its_import() -> None:
    torch = pytest.importorskip("torch")
    build = this_host(gpus=0).torch_build()
    assert build is not None
    assert (build.version, build.cuda) == (str(torch.__version__), torch.version.cuda)


def test_the_cores_of_this_process_are_those_of_its_affinity() -> None:
    assert this_host(gpus=0).allowed_cpus() == os.sched_getaffinity(0)
    assert parsed_ranges("0-2,7") == {0, 1, 2, 7}
    assert parsed_ranges("") == set()


def test_the_temporary_folder_is_that_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("TEMP", str(tmp_path))  # Python takes TEMP and TMP too
    monkeypatch.setattr("tempfile.tempdir", None)
    assert this_host(gpus=0).temporary == tmp_path


# The checks of the GPUs by ``--doctor``, on GPUs of which one has a fault


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


# What ``--doctor`` prints


# Any: read from nothing.
def grades(text: str, grade: Grade, costs: str = "", advice: str = "") -> tuple[Check[Any], Fact]:
    return Check("x", lambda source: [], costs, advice), Fact(text, grade)


FIT = grades("no swap", "ok", "pages come back", "swapoff")
SLOWER = grades("power limit 1 W of 2 W", "warning", "low clocks", "raise it")
UNFIT = grades("/dev/shm has 1 MB free", "error", "NCCL fails", "add more")
LONG = grades("fact " * 12, "error", "costs " * 12, "advice " * 12)


def test_findings_stand_by_grade_and_the_verdict_is_last() -> None:
    assert doctor_lines([UNFIT, FIT, SLOWER, SLOWER]) == [
        "fit:",
        "  no swap",
        "slower:",
        "  power limit 1 W of 2 W: low clocks; raise it",
        "  power limit 1 W of 2 W: low clocks; raise it",
        "unfit:",
        "  /dev/shm has 1 MB free: NCCL fails; add more",
        "this machine is unfit to measure: 1 error, 2 warnings",
    ]
    assert doctor_lines([FIT])[-1] == "this machine is fit to measure"
    assert doctor_lines([FIT, SLOWER])[-1] == "this machine is fit to measure, but slower or less steady: 1 warning"
    assert max(map(len, doctor_lines([LONG]))) <= 100


def test_every_check_has_its_name_and_says_what_to_do() -> None:
    checks: list[Check[object]] = [*GPU_CHECKS, *HOST_CHECKS]  # type: ignore[list-item]
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert [check.name for check in checks if not (check.costs and check.advice)] == ["inventory", "shipped records"]
