"""DDP's settings in whole runs: which run when, the line under the table, the record."""

import json
from pathlib import Path

import pytest

from fixtures.matrix.configs import DDP_PLAIN, DDP_SETTINGS
from tests.fake_gpus import machine
from tests.forked import perf
from tests.forked import pytest as forked_pytest

FILE = "perf/test_ddp_settings.py"


def collected(*arguments: str) -> set[str]:
    """The configs of the file that the command line runs."""
    own = ("-p", "no:cacheprovider", "-p", "tests.fake_gpus", "--collect-only", "-q")
    outcome = forked_pytest(*own, *arguments, variables=machine())
    ids = [test for test in outcome.test_ids if test.startswith(FILE)]
    return {test.partition("-4gpu-")[2].rstrip("]") for test in ids}


@pytest.mark.parametrize(
    ("arguments", "configs"),
    [
        (("perf",), set()),
        (("perf", "-k=bucket_25mb"), set()),
        ((FILE,), {*DDP_PLAIN, *DDP_SETTINGS}),
        (("perf", "-k=first_bucket"), {"first_bucket_1mb-bucket_25mb", "first_bucket_10mb-bucket_25mb"}),
    ],
)
def test_settings_of_ddp_are_measured_where_asked_for(arguments: tuple[str, ...], configs: set[str]) -> None:
    assert collected(*arguments) == configs


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
