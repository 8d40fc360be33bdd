"""A whole run of ``pytest perf`` under torchrun on two machines: network namespaces joined by a bridge, over gloo."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.command_line import ALONE
from tests.machines import machines, wait_for


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A run on two machines: the exit code and the output of each, and the record of machine 0."""

    codes: list[int]
    outputs: list[str]
    record: dict[str, Any]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run in which a config is measured and explained, and a hook, in ranks of its own, raises on machine 1."""
    folder = tmp_path_factory.mktemp("m")
    outputs = [folder / f"output-{index}" for index in range(2)]
    arguments = (
        *("perf/test_throughput.py", "-k", "ddp_default or raises", *ALONE, "-p", "no:cacheprovider"),
        *("--workload=tests.workloads_for_tests:steady", "--hook=tests.hooks_for_tests:raises_on_the_last_rank"),
        *("--launches", "1", "--warmup", "2", "--steps", "3", "--explain", "all"),
        f"--benchmark-json={folder / 'record.json'}",
        f"--benchmark-storage={folder / 'storage'}",
    )
    with machines(2, folder) as two:
        runs = [two.torchrun(index, *arguments, output=output) for index, output in enumerate(outputs)]
        # Four ranks, two torchrun and two pytest start on the cores of one machine.
        codes = [wait_for(run, 240, output) for run, output in zip(runs, outputs, strict=True)]
        left = [_connections(two.command(index)) for index in range(2)]
    assert left == [[], []]
    return Ended(
        codes=codes,
        outputs=[output.read_text() for output in outputs],
        record=json.loads((folder / "record.json").read_text()),
    )


def _connections(inside: Sequence[str]) -> list[str]:
    """The sockets of a machine that listen or are connected: those of ranks that are left."""
    found = subprocess.run([*inside, "ss", "-Htan"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if not line.startswith("TIME-WAIT")]


def test_two_machines_measure_as_one_world(ended: Ended) -> None:
    (measured,) = ended.record["benchmarks"]
    info = measured["extra_info"]
    assert info["world"] == "4cpu_2node"
    assert info["world_size"] == 4
    assert ended.record["instance"].endswith("-2node-socket")
    assert ended.record["environment"]["hosts"] == ["host0", "host1"]
    assert info["gradient_error"] < 1e-5
    assert info["counted_bytes_per_rank"] == pytest.approx(info["wire_bytes_per_step"] / 4, rel=0.1)
    assert sum(info["breakdown_ms"].values()) == pytest.approx(info["profiled_step_ms"], rel=1e-6)


def test_a_rank_that_fails_on_another_machine_is_named_with_its_host_and_traceback(ended: Ended) -> None:
    (text,) = [one for one in ended.outputs if "test session starts" in one]
    assert "rank 3 on host1 (machine 1) raised HookError: hook raises_on_the_last_rank, bucket 0 of " in text
    assert 'raise ArithmeticError("no such dtype")\nArithmeticError: no such dtype\n' in text
    assert "FAILED perf/test_throughput.py::test_throughput[steady-4cpu_2node-raises_on_the_last_rank]" in text


def test_the_other_machine_is_quiet_and_ends_with_the_same_code(ended: Ended) -> None:
    assert ended.codes == [1, 1]
    of_pytest = [line for line in ended.outputs[1].splitlines() if "machine" in line or "ddp-perf" in line]
    assert of_pytest == ["Exit: machine 1 of 2 has followed machine 0"]
