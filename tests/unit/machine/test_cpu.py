"""The CPU's model, the cores that may be used, and who else uses them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.machine.cpu import HostLoad, HostWatch, cpu_model, usable_cores
from tests.builders import known

ALLOWED = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n", "Intel(R) Xeon(R) Platinum 8480+"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", None),
    ],
)
def test_the_model_is_that_of_the_kernel(tmp_path: Path, cpuinfo: str, model: str | None) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert cpu_model(tmp_path / "cpuinfo") == model
    assert cpu_model(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, ALLOWED),
        ({"cpu.max": "max 100000\n"}, ALLOWED),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": f"{(ALLOWED + 1) * 100000} 100000\n"}, ALLOWED),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, ALLOWED),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
    ],
    ids=["no cgroup", "no quota", "half a core", "more than there are", "v1 without", "v1"],
)
def test_the_quota_of_a_container_limits_the_cores(tmp_path: Path, files: dict[str, str], cores: float) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path) == cores


TICKS = os.sysconf("SC_CLK_TCK")


class Kernel:
    """The counters of a host with two cores, and a clock; both stand still until they are set."""

    def __init__(self, stat: Path) -> None:
        self.stat = stat
        self.now_s = 0.0
        self.used(0)

    def used(self, seconds: float) -> None:
        """All processes have used this much, half of it in the kernel."""
        half = round(seconds * TICKS / 2)
        self.stat.write_text(f"cpu  {half} 0 {half} 999999 0 7 7 0 0 0\ncpu0 1\ncpu1 1\nintr 5\n")

    def watch(self) -> HostWatch:
        return HostWatch(self.stat, clock=lambda: self.now_s)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path / "stat")


@pytest.mark.parametrize(
    "times", [f"{15 * TICKS} 0 0 999999 0 7 7 0", f"0 0 0 999999 0 7 7 {15 * TICKS}"], ids=["processes", "other VMs"]
)
def test_the_load_is_what_others_used(kernel: Kernel, times: str) -> None:
    watch = kernel.watch()
    kernel.stat.write_text(f"cpu  {times} 0 0\ncpu0 1\ncpu1 1\n")
    kernel.now_s = 10
    load = known(watch.end())
    assert (load.cores, load.is_busy) == (2, True)
    assert load.others == pytest.approx(1.5, abs=0.1)


def test_the_processes_of_this_run_are_no_load(kernel: Kernel) -> None:
    watch = kernel.watch()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    kernel.used(0.2)
    kernel.now_s = 10
    assert watch.end() == HostLoad(others=0, cores=2)


def test_a_live_process_is_load_unless_it_belongs_to_this_run() -> None:
    """On the kernel of this machine: the process itself reports when it has burnt enough."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        theirs, ours = HostWatch(least_s=0.1), HostWatch(processes=lambda: [process.pid], least_s=0.1)
        process.stdout.readline()
        others, without = theirs.end(), ours.end()
        process.stdin.close()
    assert others is not None
    assert without is not None
    assert others.others > without.others


def test_the_load_of_a_moment_or_of_an_unknown_kernel_is_not_known(kernel: Kernel) -> None:
    watch = kernel.watch()
    kernel.now_s = 10  # the kernel counts nothing
    assert watch.end() is None
    kernel.used(1)
    kernel.now_s = 0.5
    assert watch.end() is None
    kernel.stat.write_text("")
    kernel.now_s = 10
    assert watch.end() is None
    kernel.stat.unlink()
    assert kernel.watch().end() is None
