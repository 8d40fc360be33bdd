"""A user's own hook in a whole run: the whole battery and a row of its own."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import QUICK, ROOT, pytest_perf, run

HERE = "tests.hooks_for_tests"


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The example of docs/how-to/hook.md, run as it says: what was printed, and the record of its row."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/hook.md").read_text(), re.DOTALL)
    (folder / "my_project").mkdir()
    (folder / "my_project/hooks.py").write_text(code)
    some = "bucket_1kb or gradients_wire or group or float"
    outcome = pytest_perf(
        folder,
        *("perf", *QUICK, "--hook=my_project.hooks:hook", f"--benchmark-json={folder / 'run.json'}"),
        *("-k", f"int8_all_to_all and not any_shape and ({some} or not test_gradients)"),
        variables={"PYTHONPATH": str(folder)},
    )
    assert outcome.exit_code == 0, outcome.output
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return outcome.output, benchmark


def test_the_hook_in_the_docs_passes_and_is_measured(documented: tuple[str, dict[str, Any]]) -> None:
    output, benchmark = documented
    assert benchmark["name"] == "test_throughput[vit_tiny-2cpu-int8_all_to_all]"
    assert benchmark["extra_info"]["config"] == "int8_all_to_all"
    assert benchmark["extra_info"]["wire_dtype"] == "int8"
    assert benchmark["extra_info"]["lossless"] is False
    assert abs(benchmark["extra_info"]["loss_excess_percent"]) < 5
    assert 0 < benchmark["extra_info"]["gradient_error"] < 0.5
    assert re.search(r"int8_all_to_all +[+-]\d", output), "it has no row in the table of losses"
    assert re.search(r"^hook int8_all_to_all +\d+ +\d+ +\d+ *$", output, re.MULTILINE), (
        "right, unsupported, not repeated"
    )
    assert not re.search(r"^wrong: ", output, re.MULTILINE)


def test_a_wrong_hook_is_wrong_in_the_tables_and_in_the_record(tmp_path: Path) -> None:
    chosen = "2cpu and own_claims_bf16 and not ways and not any_shape and (default or gradients_wire or throughput)"
    file = tmp_path / "run.json"
    outcome = pytest_perf(
        tmp_path, "perf", *QUICK, "-k", chosen, f"--hook={HERE}:claims_bf16", f"--benchmark-json={file}"
    )
    assert outcome.exit_code == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"hook own_claims_bf16 +1 +1 *\n", outcome.output)
    assert "wrong: test_gradients_wire[2cpu-own_claims_bf16]: rank 0, collectives of 4.194304 MB" in outcome.output
    assert re.search(r"own_claims_bf16 .* wrong +no baseline", outcome.output)
    assert "repair before you record a baseline, gradients are wrong: own_claims_bf16\n" in outcome.output
    assert "record one" not in outcome.output
    assert re.search(r"^E +AssertionError: rank 0, collectives of 4.194304 MB a step, ", outcome.output, re.MULTILINE)
    assert f"asked: wire:wire on 2cpu, hook {HERE}:claims_bf16\n" in outcome.output
    (line,) = set(re.findall(r"replay: python (.*)", outcome.output))
    assert "collectives of 4.194304 MB a step" in run(sys.executable, *shlex.split(line)).output
    (benchmark,) = json.loads(file.read_text())["benchmarks"]
    assert (benchmark["extra_info"]["fidelity"], benchmark["extra_info"]["lossless"]) == ("wrong", False)
