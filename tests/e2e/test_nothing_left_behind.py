"""A whole run of the suite in a process of its own, ended in every way: nothing of it may be left on the machine."""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.perf_process import Perf, Start, wait_until

WARMUP = 2
ENDLESS = ("--warmup", str(WARMUP), "--steps", "100000", "--min-slowdown", "1e-6")
# Each rank of DDP has a worker that loads its batches. A workload of the suite would import torchvision.
LOADER = ("-k", "feed_loader", "--workload=tests.workloads_for_tests:steady", "--launches")
# The second test never ends: its last rank is another than that of the first.
HANGS_IN_STEP = 4
HALF = (
    *("-k", "test_scaling and ddp]", "--launches", "1", "--warmup", "4", "--steps", "3"),
    "--workload=tests.workloads_for_tests:hanging",
)
MEASURED = "test_scaling[hanging-1cpu-ddp]"
LISTENING = "0A"
# 127.0.0.1, ::1 and ::ffff:127.0.0.1, as the kernel writes them.
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")

# Another run may be measuring on this machine in earnest: this one then waits for it.
pytestmark = pytest.mark.timeout(600)


def listening(pids: list[int]) -> dict[str, str]:
    """The TCP sockets on which these processes listen: inode and local address as the kernel writes it."""
    owned = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                owned.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    return {inode: address for inode, address in listeners().items() if inode in owned}


def listeners() -> dict[str, str]:
    """The same of all processes of the machine."""
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[9]: row[1].partition(":")[0] for row in [line.split() for line in lines] if row[3] == LISTENING}


def measuring(perf: Perf) -> bool:
    return any(step > WARMUP for step in perf.steps())


def interrupt(perf: Perf) -> None:
    """Ctrl-C: a terminal sends it to every process of the foreground job."""
    os.killpg(perf.process.pid, signal.SIGINT)
    assert perf.process.wait(30) == pytest.ExitCode.INTERRUPTED, perf.output.read_text()


def kill(perf: Perf) -> None:
    perf.process.kill()
    assert perf.process.wait(30) == -signal.SIGKILL


def test_a_run_to_its_end_leaves_nothing(start: Start) -> None:
    perf = start(*LOADER, "1", "--warmup", "2", "--steps", "2")
    assert perf.process.wait(300) == 0, perf.output.read_text()
    assert "1 passed" in perf.output.read_text()
    wait_until(lambda: not perf.left(), perf, within_s=10)


@pytest.mark.parametrize(("end", "launches"), [(interrupt, 2), (kill, 1)])
def test_a_run_that_is_ended_while_it_measures_leaves_nothing(
    start: Start, end: Callable[[Perf], None], launches: int
) -> None:
    """The guard, which acts when pytest is killed, knows no launches."""
    perf = start(*LOADER, str(launches), *ENDLESS)
    wait_until(lambda: measuring(perf), perf, within_s=300)
    ranks, sockets = perf.ranks(), listening(perf.ranks())
    assert len(ranks) >= 2 * launches + 2  # the workers of the launch that measures
    assert len(sockets) >= 2
    assert set(sockets.values()) <= set(LOOPBACK)
    end(perf)
    wait_until(lambda: not perf.left(), perf, within_s=10)
    assert not sockets.keys() & listeners().keys()


def test_a_run_that_is_killed_while_ranks_start_leaves_nothing(start: Start) -> None:
    perf = start(*LOADER, "1", *ENDLESS)
    wait_until(lambda: perf.steps() != [], perf, within_s=300)
    kill(perf)
    wait_until(lambda: not perf.left(), perf, within_s=10)


def test_a_signal_costs_no_test_that_was_measured(start: Start, tmp_path: Path) -> None:
    """SIGINT: tests/e2e/test_command_line.py."""
    kept = (
        f"--benchmark-json={tmp_path / 'run.json'}",
        f"--junitxml={tmp_path / 'junit.xml'}",
        "--benchmark-save=half",
    )
    perf = start(*HALF, *kept, "--explain=none")
    wait_until(lambda: "[1/2]" in perf.output.read_text() and HANGS_IN_STEP in perf.steps(), perf, within_s=300)
    for _ in range(2):  # as `timeout` does, and a shell with its terminal
        os.killpg(perf.process.pid, signal.SIGTERM)
    results = (tmp_path / "run.json", tmp_path / "junit.xml")
    wait_until(lambda: not perf.ranks() and all(file.exists() for file in results), perf, within_s=10)
    # On a busy machine Python takes seconds to unload torch.
    assert perf.process.wait(30) == pytest.ExitCode.INTERRUPTED, perf.output.read_text()
    wait_until(lambda: not perf.left(), perf, within_s=10)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["interrupted"] is True
    assert [benchmark["name"] for benchmark in record["benchmarks"]] == [MEASURED]
    assert MEASURED in {case.get("name") for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert list(tmp_path.rglob("*.part")) == []
    assert not (tmp_path / "storage").exists()
    said = perf.output.read_text()
    assert "!!! Interrupted: SIGTERM !!!" in said
    assert "interrupted: no baseline was saved" in said
    assert "Traceback" not in said
