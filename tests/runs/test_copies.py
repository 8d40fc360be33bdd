"""Copies between host and device: the table of bare copies, shares and records, on the GPUs of fake_gpus.py."""

import json
import re
from pathlib import Path

import pytest

from fixtures.matrix.configs import OUTPUTS
from tests.command_line import QUICK, Outcome
from tests.fake_gpus import machine
from tests.forked import perf
from tests.runs.test_collected import EVERY_COPY

FAKE = ("--workload=tests.workloads_for_tests:steady", "-p", "tests.fake_gpus")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    storage = tmp_path_factory.mktemp("baselines")
    arguments = ("perf/test_copies.py", *FAKE, *QUICK, "--explain=none", "--benchmark-save=first")
    return storage, perf(storage, *arguments, variables=machine(pcie_width=8))


def test_bare_copies_are_a_table_with_the_pcie_links_limit(saved: tuple[Path, Outcome]) -> None:
    assert saved[1].exit_code == 0, saved[1].output
    _, found, below = saved[1].output.partition("bare copies between host and device on 4gpu, native, float32")
    assert found
    assert below.startswith(", the PCIe link's limit is 32 GB/s\n")
    rows = {line.split()[0]: line.split() for line in below.splitlines() if "_to_" in line}
    assert len(rows) == 12
    assert rows["host_to_device_pinned_16mb"][1:5] == ["16.78", "1.778", "9.44", "30.0"]  # of fake ranks
    assert below.count("latency 100 us, bandwidth 10 GB/s;") == 5
    assert "bus" not in below.partition("copied GB/s:")[0]


def test_the_share_of_the_step_is_in_the_table_and_in_the_record(saved: tuple[Path, Outcome]) -> None:
    assert re.search(r"^config .* copies ", saved[1].output, re.MULTILINE)
    (file,) = saved[0].rglob("0001_first.json")
    infos = [benchmark["extra_info"] for benchmark in json.loads(file.read_text())["benchmarks"]]
    shares = {info["config"] for info in infos if "copies_percent" in info}
    assert shares == {*EVERY_COPY, *OUTPUTS} - {"feed_resident", "graph-feed_resident-bucket_25mb"}
    fingerprints = {info["config"]: info["config_fingerprint"] for info in infos if "config_fingerprint" in info}
    options = {config: fingerprint["training_options"] for config, fingerprint in fingerprints.items()}
    assert options["feed_loader_4"] == {"workers": "4"}
    assert options["checkpoint_copy"] == {"copies_back": "checkpoint", "every": "10"}
    assert options["feed_pinned"] == {}
