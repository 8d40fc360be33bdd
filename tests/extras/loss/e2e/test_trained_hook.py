"""The training tests of a hook on live ranks."""

import json
import re
from pathlib import Path

from tests.command_line import QUICK
from tests.forked import live_perf


def test_a_trained_hook_is_in_the_table_of_losses_and_in_the_record(tmp_path: Path) -> None:
    file, chosen = tmp_path / "run.json", "2cpu-bf16] and throughput or training and bf16]"
    options = ("-p", "tests.extras.loss.few_seeds", *QUICK, "-v", "-k", chosen, f"--benchmark-json={file}")
    outcome = live_perf(tmp_path, "perf", *options).exits(0)
    record = json.loads(file.read_text())
    assert abs(record["benchmarks"][0]["extra_info"]["loss_excess_percent"]) < 5
    assert {one["config"] for one in record["training"]} == {"bf16"}
    assert re.search(r"^bf16 +[+-]\d", outcome.output, re.MULTILINE), "it has no row in the table of losses"
