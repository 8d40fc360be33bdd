"""What a workload changes in its process does not reach other workloads."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world
from tests.ranks.poisons import NAMES

TWO = parse_world("2cpu")
PLAIN = "tests.workloads_for_tests:steady"


class Sets:
    """One launch of two ranks, and the lines that it printed."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.sets = RankSets(
            launches=1, size=2, on_gpu=False, rank_timeout_s=60, on_message=lambda text: self.said.append(text)
        )

    def train(self, workload: str, config: str = "ddp_default") -> list[int]:
        """Train one step; return the process ids of the ranks."""
        (ranks,) = self.sets.of(INTERCONNECTS["native"], workload=workload)
        request = TrainRequest(workload=workload, config=config, world="2cpu", steps=1, warmup=5)
        ranks.ask(TWO, request, doing=workload)
        pids: list[int] = ranks.run(TWO, "tests.ranks.rank_faults:pid", {}, doing="asking for pids")
        return pids

    def changes(self) -> list[str]:
        return [line for line in self.said if "changes its process" in line]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sets]:
    sets = Sets()
    yield sets
    sets.sets.close()


@pytest.fixture(scope="module")
def poisoned() -> dict[str, list[str]]:
    """Poison -> the changes that a process reports when it takes one poison after the other."""
    done = subprocess.run([sys.executable, "-m", "tests.ranks.poisons"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    changes: dict[str, list[str]] = json.loads(done.stdout)
    return changes


@pytest.mark.parametrize("poison", NAMES)
def test_a_change_of_the_process_is_found(poisoned: dict[str, list[str]], poison: str) -> None:
    found = poisoned[poison]
    assert any(line.startswith(NAMES[poison]) for line in found) == bool(NAMES[poison]) == bool(found), found


def test_no_value_of_a_variable_is_shown(poisoned: dict[str, list[str]]) -> None:
    assert "hunter2" not in str(poisoned)


def test_another_workload_trains_in_new_processes_and_the_change_is_reported_once(shared: Sets) -> None:
    workload = "tests.ranks.poisons:umask"
    poisoned = shared.train(workload)
    assert shared.train(workload) == poisoned
    assert not {*poisoned} & {*shared.train(PLAIN)}
    (said,) = shared.changes()
    assert said.startswith(f"training {workload} changes its process for later tests: umask: ")
    assert said.endswith("; new ranks start before another workload")


@pytest.mark.parametrize("config", ["bf16", "powersgd_rank1", "feed_loader", "compile-ddp_optimizer", "zero1"])
def test_the_suites_own_configs_change_nothing(shared: Sets, config: str) -> None:
    before = shared.train(PLAIN)
    shared.said.clear()
    shared.train(PLAIN, config)
    assert shared.train("tests.ranks.poisons:nothing") == before
    assert shared.said == []


@pytest.mark.parametrize("default", ["default_dtype", "default_device"])
def test_the_suites_own_tensors_do_not_have_the_default(shared: Sets, default: str) -> None:
    """Rank 0 alone has another: a collective whose sizes differ ends the process."""
    shared.train(f"tests.ranks.poisons:{default}")
    shared.train(PLAIN)
    assert NAMES[default] in "".join(shared.changes())


def test_a_workload_that_forks_its_rank_fails(shared: Sets) -> None:
    with pytest.raises(RankFailure, match="forked"):
        shared.train("tests.ranks.poisons:forking")
    shared.train(PLAIN)
