"""Optimizers and shardings in whole runs: the table, the line under it, the record."""

import json
from pathlib import Path

import pytest

from tests.command_line import Outcome
from tests.fake_gpus import machine
from tests.forked import perf

FILE = "perf/test_sharding.py"
STEADY = "--workload=tests.workloads_for_tests:steady"
QUICK = (STEADY, "--launches=2", "--steps=3", "--warmup=4")


def run(folder: Path, *arguments: str, gpus: bool = True) -> Outcome:
    on_gpus = ("-p", "tests.fake_gpus") if gpus else ()
    return perf(folder / "baselines", FILE, *QUICK, *on_gpus, *arguments, variables=machine() if gpus else {})


def test_a_run_says_what_saves_memory_and_pastes_the_blocks(tmp_path: Path) -> None:
    json_file = tmp_path / "run.json"
    outcome = run(tmp_path, "-k=adamw or fsdp2", "--explain=none", f"--benchmark-json={json_file}")
    assert outcome.exit_code == 0, outcome.output
    assert "fsdp2 saves 0.03 GB (30 %) a rank against adamw, " in outcome.unwrapped
    infos = {one["extra_info"]["config"]: one["extra_info"] for one in json.loads(json_file.read_text())["benchmarks"]}
    assert set(infos) == {"adamw", "adamw_fused", "fsdp2", "fsdp2_bf16", "fsdp2_keep", "fsdp2_one", "fsdp2_prefetch"}
    assert infos["fsdp2"]["sharded_blocks"] == ["layers"]
    assert infos["fsdp2"]["config_fingerprint"]["training_options"] == {"optimizer": "adamw", "sharding": "fsdp2"}
    assert [infos[name]["config_fingerprint"]["ddp"] for name in ("adamw", "fsdp2")] == [True, False]
    assert "sharded_blocks" not in infos["adamw"]


def test_two_groups_need_four_ranks(tmp_path: Path) -> None:
    outcome = run(tmp_path, "-k=hsdp", "--explain=none", gpus=False)
    assert outcome.exit_code == pytest.ExitCode.USAGE_ERROR
    reason = "hsdp shards within two groups of two or more ranks, 2cpu cannot be divided so"
    assert outcome.errors.startswith(f"ERROR: nothing to run: {reason} (1 test); ")
