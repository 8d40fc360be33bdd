"""NCCL's settings in whole runs: in whose ranks, the check of the log, the line under the table."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.matrix.configs import CONFIGS
from tests.command_line import Outcome
from tests.fake_gpus import machine
from tests.forked import perf
from tests.runs.nccl_that_reads import UNREAD

FILE = "perf/test_nccl_settings.py"
STEADY = "tests.workloads_for_tests:steady"
QUICK = ("--launches=2", "--steps=3", "--warmup=4", "--explain=none")
WITH_GPUS = (*QUICK, "-p", "tests.fake_gpus", "-p", "tests.runs.nccl_that_reads")


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
