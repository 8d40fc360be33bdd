"""``pytest perf --doctor`` on a healthy machine, and on machines with one thing wrong.

NVML is that of fake_gpus.py, the host's files those of fake_host.py.
"""

from pathlib import Path
from typing import Any

import pynvml

from tests.command_line import Outcome
from tests.extras.doctor.fake_host import host, write_host
from tests.fake_gpus import machine
from tests.forked import perf

DOCTOR = ("perf", "--doctor", "-p", "tests.fake_gpus", "-p", "tests.extras.doctor.fake_host")


def doctor(
    tmp_path: Path, files: dict[str, str] | None = None, *arguments: str, shm_mb: int = 16_384, **injected: Any
) -> Outcome:
    there = host(write_host(tmp_path / "root", files), shm_mb=shm_mb)
    variables = machine(**injected) | there | {"TMPDIR": str(tmp_path)}
    return perf(tmp_path / "storage", *DOCTOR, *arguments, variables=variables)


def test_a_healthy_machine_is_fit(tmp_path: Path) -> None:
    title, *facts, verdict = doctor(tmp_path).exits(0).output.splitlines()
    assert (title, verdict) == ("fit:", "this machine is fit to measure")
    assert "  GPUs: 4 x NVIDIA H200; between pairs: 6 x NV18; 4 x 18 of 18 NVLinks up" in facts
    assert "  /dev/shm has 16384 MB free" in facts
    assert all(len(line) <= 100 for line in facts)


def test_an_unfit_machine_gives_exit_code_1(tmp_path: Path) -> None:
    files = {"proc/self/status": "Cpus_allowed_list:\t0-2"}
    outcome = doctor(tmp_path, files, shm_mb=64, compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS).exits(1)
    assert "/dev/shm has 64 MB free: NCCL's buffers" in outcome.unwrapped
    assert outcome.output.endswith("this machine is unfit to measure: 3 errors, 0 warnings\n")


def test_nothing_is_collected_or_measured(tmp_path: Path) -> None:
    outcome = doctor(tmp_path, {}, "--benchmark-save=nothing", "--launches=0").exits(0)
    assert "test session starts" not in outcome.output
    assert list((tmp_path / "storage").rglob("*")) == []


def test_gpus_that_cannot_be_measured_are_a_finding(tmp_path: Path) -> None:
    there = host(write_host(tmp_path / "root"))
    variables = machine() | there | {"CUDA_VISIBLE_DEVICES": "9", "TMPDIR": str(tmp_path)}
    outcome = perf(tmp_path, *DOCTOR, variables=variables).exits(1)
    assert "unfit: CUDA_VISIBLE_DEVICES=9 shows none of the 4 GPUs of this machine" in outcome.unwrapped
