"""DDP's settings in whole runs: the line under the table, the record."""

import json
from pathlib import Path

from tests.fake_gpus import machine
from tests.forked import perf

FILE = "perf/test_ddp_settings.py"


def test_a_run_says_that_plain_buckets_are_best_and_records_the_settings(tmp_path: Path) -> None:
    json_file = tmp_path / "run.json"
    outcome = perf(
        tmp_path / "baselines",
        *(FILE, "--workload=tests.workloads_for_tests:steady", f"--benchmark-json={json_file}"),
        *("--launches=2", "--steps=3", "--warmup=4", "--explain=none", "-p", "tests.fake_gpus"),
        *("-p", "tests.runs.nccl_that_reads"),  # every step takes equally long
        variables=machine(),
    )
    assert outcome.exit_code == 0, outcome.output
    assert "plain buckets are best here: of 12 settings of DDP none clearly gains, at most 0.0 %" in outcome.unwrapped
    assert outcome.output.count("starting 2 x 4 ranks") == 2  # at the end, for canaries without the user's code
    of_config = {
        one["extra_info"]["config"]: one["extra_info"]["config_fingerprint"]["ddp_arguments"]
        for one in json.loads(json_file.read_text())["benchmarks"]
    }
    both = {"static_graph": "True", "gradient_as_bucket_view": "True"}
    assert of_config["last_bucket_1mb-bucket_25mb"] == {
        **both,
        "dist._DEFAULT_FIRST_BUCKET_BYTES": "1048576",
        "DDP_SET_LAST_BUCKET_CAP": "1",
    }
    assert of_config["bucket_list-bucket_25mb"] == {**both, "bucket_cap_mb_list": "[1, 5, 10, 25]"}
