"""The checks of the host by ``--doctor``, on files of a healthy host of which one is another."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.extras.doctor.findings import Fact, findings
from fixtures.extras.doctor.host_checks import HOST_CHECKS, Host, parsed_ranges, this_host
from fixtures.machine.cpu import HostLoad
from tests.extras.doctor.fake_host import write_host

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
