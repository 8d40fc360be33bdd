"""The files of /proc, /sys and /dev that ``--doctor`` reads, of a healthy host with 64 cores on two NUMA nodes.

A plugin: ``pytest perf --doctor -p tests.extras.doctor.fake_host`` reads the folder of ``host``.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fixtures.extras.doctor import host_checks

FAKE_HOST = "FAKE_HOST"

HEALTHY = {
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1",
    "proc/meminfo": "MemTotal: 256000000 kB\nMemAvailable: 200000000 kB\nSwapTotal: 8000000 kB\nSwapFree: 8000000 kB",
    "proc/self/status": "Name:\tpytest\nCpus_allowed_list:\t0-63\n",
    "proc/self/limits": (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             96365                96365                processes \n"
        "Max open files            20000                20000                files     \n"
        "Max locked memory         8388608              8388608              bytes     \n"
    ),
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "sys/fs/cgroup/cpu.max": "max 100000",
    "sys/fs/cgroup/memory.max": "max",
    "dev/shm/.keep": "",
}


def write_host(root: Path, files: dict[str, str] | None = None) -> Path:
    """Write the files of a healthy host, but these with another text; return the folder."""
    for name, text in (HEALTHY | (files or {})).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return root


def host(root: Path, *, shm_mb: int = 16_384) -> dict[str, str]:
    """The environment of a run on this host. root: the folder that is read instead of /. shm_mb: free in /dev/shm."""
    return {FAKE_HOST: json.dumps({"root": str(root), "shm_mb": shm_mb})}


def pytest_load_initial_conftests() -> None:
    """For the rest of this process."""
    given = json.loads(os.environ[FAKE_HOST])
    host_checks.ROOT = Path(given["root"])
    free_space = os.statvfs

    # Any: statvfs_result has no public constructor.
    def statvfs(path: Path) -> Any:
        is_shm = path == host_checks.ROOT / "dev/shm"
        return SimpleNamespace(f_bavail=given["shm_mb"], f_frsize=2**20) if is_shm else free_space(path)

    os.statvfs = statvfs  # type: ignore[assignment]
