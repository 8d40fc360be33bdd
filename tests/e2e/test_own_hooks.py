"""A user's own hook in a whole run: checks on live ranks and a row of its own."""

import json
import re
from typing import Any

import pytest

from tests.command_line import QUICK, ROOT, Outcome
from tests.forked import live_perf as pytest_perf

BARE = """
from torch import distributed

def sums(group, bucket):
    future = distributed.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, Any]]:
    """The example of docs/how-to/hook.md and a function without a promise, and the record of the example's row."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/hook.md").read_text(), re.DOTALL)
    (folder / "my_project").mkdir()
    (folder / "my_project/hooks.py").write_text(code)
    (folder / "bare.py").write_text(BARE)
    outcome = pytest_perf(
        folder,
        *("perf", "-v", *QUICK),
        *("--hook=my_project.hooks:hook", f"--benchmark-json={folder / 'run.json'}"),
        *("--hook=bare:sums", "-k", "my_int8 and (gradients_wire or throughput) or 2cpu-sums-default]"),
        variables={"PYTHONPATH": str(folder)},
    ).exits(0)
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return outcome, benchmark


def test_the_hook_in_the_docs_passes_and_is_measured(run: tuple[Outcome, dict[str, Any]]) -> None:
    outcome, benchmark = run
    assert benchmark["name"] == "test_throughput[vit_tiny-2cpu-my_int8]"
    assert benchmark["extra_info"]["config"] == "my_int8"
    assert benchmark["extra_info"]["wire_dtype"] == "int8"
    assert benchmark["extra_info"]["lossless"] is False
    assert 0 < benchmark["extra_info"]["gradient_error"] < 0.5
    assert re.search(r"^hook my_int8 +\d+ *$", outcome.output, re.MULTILINE), "right, and nothing else"
    assert not re.search(r"^wrong: ", outcome.output, re.MULTILINE)
    assert "my_int8 promises nothing" not in outcome.unwrapped


def test_a_function_without_a_promise_is_right_with_a_warning(run: tuple[Outcome, dict[str, Any]]) -> None:
    said = "so the tests required only that all ranks get the same result, not that the result is the mean"
    assert f" sums promises nothing, {said}" in run[0].unwrapped
