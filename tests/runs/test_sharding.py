"""Optimizers and shardings in whole runs: the table, the line under it, the record."""

import json
from pathlib import Path

from tests.fake_gpus import machine
from tests.forked import perf


def test_a_run_says_what_saves_memory_and_pastes_the_blocks(tmp_path: Path) -> None:
    json_file = tmp_path / "run.json"
    outcome = perf(
        tmp_path / "baselines",
        *(
            "perf/test_sharding.py",
            "--workload=tests.workloads_for_tests:steady",
            "-k=(adamw or fsdp2) and not graph",
            "--explain=none",
        ),
        *("--launches=2", "--steps=3", "--warmup=4", "-p", "tests.fake_gpus", f"--benchmark-json={json_file}"),
        variables=machine(),
    )
    assert outcome.exit_code == 0, outcome.output
    assert "fsdp2 saves 0.03 GB (30 %) a rank against adamw, " in outcome.unwrapped
    infos = {one["extra_info"]["config"]: one["extra_info"] for one in json.loads(json_file.read_text())["benchmarks"]}
    ways = {"fsdp2", *(f"fsdp2_{way}" for way in ("bf16", "bf16_keep", "keep", "one", "prefetch"))}
    assert set(infos) == {"adamw", "adamw_fused", *ways}
    assert infos["fsdp2"]["sharded_blocks"] == ["layers"]
    assert infos["fsdp2"]["config_fingerprint"]["training_options"] == {"optimizer": "adamw", "sharding": "fsdp2"}
    assert [infos[name]["config_fingerprint"]["ddp"] for name in ("adamw", "fsdp2")] == [True, False]
    assert "sharded_blocks" not in infos["adamw"]
