"""A user's own hook in a whole run: checks on live ranks and a row of its own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import QUICK, ROOT, pytest_perf


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The example of docs/how-to/hook.md, run by its command: its output, and the record of its row."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/hook.md").read_text(), re.DOTALL)
    (folder / "my_project").mkdir()
    (folder / "my_project/hooks.py").write_text(code)
    outcome = pytest_perf(
        folder,
        *("perf", "-v", *QUICK, "--hook=my_project.hooks:hook", f"--benchmark-json={folder / 'run.json'}"),
        *("-k", "my_int8 and (gradients_wire or throughput or training)"),
        variables={"PYTHONPATH": str(folder)},
    )
    assert outcome.exit_code == 0, outcome.output
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return outcome.output, benchmark


def test_the_hook_in_the_docs_passes_and_is_measured(documented: tuple[str, dict[str, Any]]) -> None:
    output, benchmark = documented
    assert benchmark["name"] == "test_throughput[vit_tiny-2cpu-my_int8]"
    assert benchmark["extra_info"]["config"] == "my_int8"
    assert benchmark["extra_info"]["wire_dtype"] == "int8"
    assert benchmark["extra_info"]["lossless"] is False
    assert abs(benchmark["extra_info"]["loss_excess_percent"]) < 5
    assert 0 < benchmark["extra_info"]["gradient_error"] < 0.5
    assert re.search(r"my_int8 +[+-]\d", output), "it has no row in the table of losses"
    assert re.search(r"^hook my_int8 +\d+ *$", output, re.MULTILINE), "right, and nothing else"
    assert not re.search(r"^wrong: ", output, re.MULTILINE)
    assert "promises nothing" not in output


def test_a_function_without_a_promise_is_right_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        "from torch import distributed\n\n\n"
        "def sums(group, bucket):\n"
        "    future = distributed.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()\n"
        "    return future.then(lambda done: done.value()[0])\n"
    )
    outcome = pytest_perf(
        tmp_path,
        *("perf/test_gradients.py", "--hook=bare:sums", "-k", "test_gradients and sums and default and 2cpu"),
        variables={"PYTHONPATH": str(tmp_path)},
    )
    assert outcome.exit_code == 0, outcome.output
    said = "so the tests required only that all ranks get the same result, not that the result is the mean"
    assert f"sums promises nothing, {said}" in outcome.unwrapped
