"""Files of perf/ in whole runs: their tables and records."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.matrix.configs import CONFIGS, OUTPUTS
from tests.command_line import QUICK, Outcome
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import perf as pytest_perf
from tests.runs.nccl_that_reads import UNREAD
from tests.runs.test_collected import EVERY_COPY

FILE = "perf/test_nccl_settings.py"
STEADY = "tests.workloads_for_tests:steady"
WITH_GPUS = (
    *("--launches=2", "--steps=3", "--warmup=4", "--explain=none"),
    *("-p", "tests.fake_gpus", "-p", "tests.runs.nccl_that_reads"),
)


def run(folder: Path, *arguments: str, **variables: str) -> tuple[Outcome, dict[str, Any]]:
    """On four GPUs; returns the outcome and the record."""
    json_file = folder / "run.json"
    outcome = perf(
        folder / "baselines",
        *(*WITH_GPUS, f"--benchmark-json={json_file}", *arguments),
        variables=machine() | variables,
    )
    return outcome, json.loads(json_file.read_text())


@pytest.fixture(scope="module")
def of_two_workloads(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("settings")
    workloads = (f"--workload={STEADY}", "--workload=tests.workloads_for_tests:restless")
    return run(folder, FILE, *workloads, "-k=ctas or ll128 or -bucket_10mb or -bucket_25mb", "--benchmark-save=first")


def test_each_setting_starts_its_ranks_once_and_the_line_under_the_table_names_what_gains(
    of_two_workloads: tuple[Outcome, dict[str, Any]],
) -> None:
    outcome, _ = of_two_workloads
    assert outcome.exit_code == 0, outcome.output
    settings = [
        " with NCCL_MAX_CTAS=4",
        " with NCCL_MAX_CTAS=8",
        " with NCCL_ALGO=Ring",
        " with NCCL_PROTO=Simple",
        " with NCCL_PROTO=LL128",
        " with TORCH_NCCL_HIGH_PRIORITY=1",
    ]
    # One step of both workloads, the canaries without the user's code, each workload, and the configs that share ranks.
    assert re.findall(r"starting 2 x 4 ranks(.*) \.\.\.", outcome.output) == ["", "", "", *settings, "", "", *settings]
    lines = re.findall(r"^ctas_8.* gains .*$", of_two_workloads[0].output, re.MULTILINE)
    one = r"ctas_8-bucket_(\d+mb) gains 2\.0 % over bucket_\1 \(\d\.\d to \d\.\d\); 1 more gain less"
    assert len(lines) == 2
    assert all(re.fullmatch(one, line) for line in lines)


def test_the_record_has_the_variables_of_the_config_alone(of_two_workloads: tuple[Outcome, dict[str, Any]]) -> None:
    _, record = of_two_workloads
    infos = [one["extra_info"] for one in record["benchmarks"]]
    of_config = {info["config"]: info["config_fingerprint"] for info in infos}
    assert of_config["bucket_10mb"]["variables"] == {}
    assert of_config["ctas_8-bucket_10mb"]["variables"] == {"NCCL_MAX_CTAS": "8"}
    assert of_config["bucket_10mb"]["ddp_arguments"] == CONFIGS["bucket_10mb"].ddp_settings()
    assert [name for name in record["environment"]["variables"] if name.startswith("NCCL_MAX")] == []
    assert len(record["canaries"]["native"]["canaries"]) > 2


def test_a_baseline_of_settings_is_not_missed_by_a_run_without_them(tmp_path: Path) -> None:
    chosen = (f"--workload={STEADY}", "-k=bucket_10mb and not bf16 and not powersgd and not no_comm")
    outcome, first = run(tmp_path, "perf", FILE, *chosen, "--benchmark-save=first")
    assert outcome.exit_code == 0, outcome.output
    outcome, second = run(tmp_path, "perf", *chosen, "--require-baseline")
    assert outcome.exit_code == 0, outcome.output
    without = {one["fullname"] for one in first["benchmarks"]} - {one["fullname"] for one in second["benchmarks"]}
    settings = ("bucket_10mb", "ctas_4-bucket_10mb", "ctas_8-bucket_10mb")
    assert without == {f"{FILE}::test_nccl_settings[steady-4gpu-{name}]" for name in settings}


def test_a_setting_that_nccl_does_not_read_fails_and_the_others_go_on(tmp_path: Path) -> None:
    outcome, record = run(
        tmp_path, FILE, f"--workload={STEADY}", "-k=ctas_8-bucket_10mb or ring", **{UNREAD: "NCCL_ALGO"}
    )
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert (
        "launch 1 of algorithm_ring-bucket_25mb on 4gpu: NCCL_ALGO=Ring did not take effect: "
        "NCCL's log does not name NCCL_ALGO"
    ) in outcome.unwrapped
    (measured,) = record["benchmarks"]
    assert measured["extra_info"]["config"] == "ctas_8-bucket_10mb"
    assert "NCCL_MAX_CTAS" not in record["environment"]["variables"]


# Copies between host and device: the table of bare copies, shares and records, on the GPUs of fake_gpus.py


FAKE = ("--workload=tests.workloads_for_tests:steady", "-p", "tests.fake_gpus")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    storage = tmp_path_factory.mktemp("baselines")
    arguments = ("perf/test_copies.py", *FAKE, *QUICK, "--explain=none", "--benchmark-save=first")
    return storage, perf(storage, *arguments, variables=machine(pcie_width=8))


def test_bare_copies_are_a_table_with_the_pcie_links_limit(copied: tuple[Path, Outcome]) -> None:
    assert copied[1].exit_code == 0, copied[1].output
    _, found, below = copied[1].output.partition("bare copies between host and device on 4gpu, native, float32")
    assert found
    assert below.startswith(", the PCIe link's limit is 32 GB/s\n")
    rows = {line.split()[0]: line.split() for line in below.splitlines() if "_to_" in line}
    assert len(rows) == 12
    assert rows["host_to_device_pinned_16mb"][1:5] == ["16.78", "1.778", "9.44", "30.0"]  # of fake ranks
    assert below.count("latency 100 us, bandwidth 10 GB/s;") == 5
    assert "bus" not in below.partition("copied GB/s:")[0]


def test_the_share_of_the_step_is_in_the_table_and_in_the_record(copied: tuple[Path, Outcome]) -> None:
    assert re.search(r"^config .* copies ", copied[1].output, re.MULTILINE)
    (file,) = copied[0].rglob("0001_first.json")
    infos = [benchmark["extra_info"] for benchmark in json.loads(file.read_text())["benchmarks"]]
    shares = {info["config"] for info in infos if "copies_percent" in info}
    assert shares == {*EVERY_COPY, *OUTPUTS} - {"feed_resident", "graph-feed_resident-bucket_25mb"}
    fingerprints = {info["config"]: info["config_fingerprint"] for info in infos if "config_fingerprint" in info}
    options = {config: fingerprint["training_options"] for config, fingerprint in fingerprints.items()}
    assert options["feed_loader_4"] == {"workers": "4"}
    assert options["checkpoint_copy"] == {"copies_back": "checkpoint", "every": "10"}
    assert options["feed_pinned"] == {}


# Optimizers and shardings in whole runs: the table, the line under it, the record


def test_a_run_says_what_saves_memory_and_pastes_the_blocks(tmp_path: Path) -> None:
    json_file = tmp_path / "run.json"
    perf(
        tmp_path / "baselines",
        *(
            "perf/test_sharding.py",
            "--workload=tests.workloads_for_tests:steady",
            "-k=(adamw or fsdp2) and not graph",
            "--explain=none",
        ),
        *("--launches=2", "--steps=3", "--warmup=4", "-p", "tests.fake_gpus", f"--benchmark-json={json_file}"),
        variables=machine(),
    ).exits(0)
    infos = {one["extra_info"]["config"]: one["extra_info"] for one in json.loads(json_file.read_text())["benchmarks"]}
    ways = {"fsdp2", *(f"fsdp2_{way}" for way in ("bf16", "bf16_keep", "keep", "one", "prefetch"))}
    assert set(infos) == {"adamw", "adamw_fused", *ways}
    assert infos["fsdp2"]["sharded_blocks"] == ["layers"]
    assert infos["fsdp2"]["config_fingerprint"]["training_options"] == {"optimizer": "adamw", "sharding": "fsdp2"}
    assert [infos[name]["config_fingerprint"]["ddp"] for name in ("adamw", "fsdp2")] == [True, False]
    assert "sharded_blocks" not in infos["adamw"]


# A run of test_scaling on many devices: its table and its record


# Bare all-reduces


def test_what_cannot_be_written_costs_the_exit_code_and_not_the_table(tmp_path: Path) -> None:
    grouped = "--benchmark-group-by=param:config,param:collective"  # there is no parameter config
    outcome = pytest_perf(
        *(tmp_path, "perf/test_collectives.py", "-k", "1mb or 4mb", *QUICK, grouped, "--benchmark-json=/dev/full")
    ).exits(pytest.ExitCode.TESTS_FAILED)
    for size in ("1mb", "4mb"):
        assert f" benchmark 'config= collective=all_reduce_{size}': 1 tests " in outcome.output
    assert "bare all-reduces on 2cpu, float32\n" in outcome.output
    assert "\nERROR: not saved: /dev/full: No space left on device\n" in outcome.output
    assert "Traceback" not in outcome.output + outcome.errors
