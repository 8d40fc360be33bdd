"""The CPU's model and the cores that may be used."""

import os
from pathlib import Path

import pytest

from fixtures.machine.cpu import cpu_model, usable_cores

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
