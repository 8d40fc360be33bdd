"""A run on GPUs with records of other instances, and a run without any record: their closing lines and records.

NVML and the canaries are those of fake_gpus.py, the records the committed ones.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import QUICK, ROOT, Outcome
from tests.fake_gpus import machine
from tests.forked import perf

SUITE = (
    *("perf/test_throughput.py", "-k=ddp and not default", "--workload=tests.workloads_for_tests:steady"),
    *(*QUICK, "--explain=none", "-p", "tests.fake_gpus"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed records, those of four GPUs under the name of another kind of machine."""
    storage = tmp_path_factory.mktemp("storage") / "baselines"
    shutil.copytree(ROOT / "baselines", storage)
    shutil.rmtree(storage / "4x-nvidia-h200-nv18-shm")
    for file in (storage / "4x-nvidia-h200-nv18").rename(storage / "p5en.half").iterdir():
        file.write_text(file.read_text().replace('"4x-nvidia-h200-nv18"', '"p5en.half"'))
    return storage


def first_run(storage: Path, tmp_path: Path, **injected: Any) -> tuple[Outcome, dict[str, Any]]:
    """What the run printed, and the key of its record."""
    json_file = tmp_path / "now.json"
    outcome = perf(storage, *SUITE, f"--benchmark-json={json_file}", variables=machine(**injected)).exits(0)
    return outcome, json.loads(json_file.read_text())["first_run"]


def test_a_machine_like_those_of_the_records_is_as_fast_as_expected(recorded: Path, tmp_path: Path) -> None:
    outcome, record = first_run(recorded, tmp_path)
    assert "Compared with 21 records of the same GPU (NVIDIA H200) in the storage:" in outcome.output
    assert (
        "all 6 numbers are as high as expected: all-reduce of 64 MB over 4 GPUs, bus bandwidth 309 of 308 GB/s; "
        "host-to-device copy 44.1 of 42.5 GB/s"
    ) in outcome.unwrapped
    assert record["limitations"] == []
    assert [number["low"] for number in record["numbers"]] == [False] * 6


def test_what_slows_the_machine_is_named_and_fails_nothing(recorded: Path, tmp_path: Path) -> None:
    """Two numbers, each with its cause; test_first_run_lines.py has the others."""
    slower = {"all_reduce_64mb": 11.8, "all_reduce_1mb": 2, "matrix_product_4096": 1.14}
    outcome, record = first_run(recorded, tmp_path, peer_to_peer=False, power_limit_w=350, slower=slower)
    for says in (
        "all-reduce of 64 MB over 4 GPUs, bus bandwidth 26.2 of 308 GB/s, 92 % lower: peer-to-peer is off in "
        "6 of 6 pairs of GPUs (chipset not supported): traffic goes through host memory",
        "matrix product 45.1 of 51.2 TFLOP/s, 12 % lower: power limit 350 W of 700 W (GPU 0-3)",
    ):
        assert says in outcome.unwrapped
    assert {cause for number in record["numbers"] for cause in number["causes"]} == set(record["limitations"])
    assert {number["name"] for number in record["numbers"] if number["low"]} <= slower.keys()


def test_a_machine_without_records_of_its_gpu_is_known_by_its_own_reports(recorded: Path, tmp_path: Path) -> None:
    outcome, record = first_run(recorded, tmp_path, name="NVIDIA L40S", pcie_width=8)
    beginning = "No record of the same GPU (NVIDIA L40S) in the storage. The machine itself: "
    assert beginning + "the PCIe link is x8 of x16 (GPU 0)" in outcome.unwrapped
    assert record["numbers"] == []


def test_a_run_with_a_baseline_says_nothing_of_this(recorded: Path, tmp_path: Path) -> None:
    storage = tmp_path / "baselines"
    shutil.copytree(recorded, storage)
    saved = perf(storage, *SUITE, "--benchmark-save=first", variables=machine(pcie_width=8))
    assert "the PCIe link is x8 of x16 (GPU 0)" in saved.output
    json_file = tmp_path / "now.json"
    again = perf(storage, *SUITE, f"--benchmark-json={json_file}", variables=machine(pcie_width=8)).exits(0)
    assert "Compared with" not in again.output
    assert "first_run" not in json.loads(json_file.read_text())
