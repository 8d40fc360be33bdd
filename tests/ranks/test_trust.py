"""Ranks that ran a user's code serve only tests of that same code; the suite's own leaves its process as it was."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fixtures.launch.protocol import CannotRun, TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.configs import CONFIGS, find_config
from fixtures.matrix.lookup import user_code
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from tests.ranks.poisons import NAMES, WORKLOADS

TWO = parse_world("2cpu")
HEALTHY = "tests.workloads_for_tests:steady"
WARMUP = 5
# One of the configs whose names differ in numbers only, or in how they compile. Compiled autograd is left out: it
# imports setuptools, which adds to sys.path.
RUN_HERE = list(
    {
        re.sub(r"-bucket_\d+mb|\d+|(?<=compile-).*", "", name): name
        for name, config in CONFIGS.items()
        if not config.why_not(TWO, warmup=WARMUP) and not config.variables and config.compile != "python_reducer"
    }.values()
)


class Sets:
    """One launch of two ranks."""

    def __init__(self) -> None:
        self.sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=120)

    def train(self, workload: str, config: str = "ddp_default") -> list[int]:
        """Train one step; return the process ids of the ranks."""
        (ranks,) = self.sets.of(INTERCONNECTS["native"], code=find_config(config).code(workload))
        request = TrainRequest(workload=workload, config=config, world="2cpu", steps=1, warmup=WARMUP)
        ranks.ask(TWO, request, doing=workload)
        pids: list[int] = ranks.run(TWO, "tests.ranks.rank_faults:pid", {}, doing="asking for pids")
        return pids

    def imported(self, module: str) -> bool:
        """Whether any rank has imported this module."""
        (ranks,) = self.sets.of(INTERCONNECTS["native"], code=user_code(HEALTHY))
        return any(ranks.run(TWO, "tests.ranks.rank_faults:has_imported", {"module": module}, doing="asking"))


@pytest.fixture(scope="module")
def shared() -> Iterator[Sets]:
    sets = Sets()
    yield sets
    sets.sets.close()


@pytest.mark.parametrize("name", ["several", "default_device", "default_dtype"])
def test_poisons_between_healthy_workloads_are_found_and_reach_none_of_them(shared: Sets, name: str) -> None:
    before = shared.train(HEALTHY)
    poisoned = shared.train("vit_tiny")  # its first step imports and initialises
    workload = f"tests.ranks.poisons:{name}"
    (ranks,) = shared.sets.of(INTERCONNECTS["native"], code=user_code(workload))
    ranks.run(TWO, "tests.ranks.process_state:changed", {}, doing="watching")
    assert shared.train(workload) == poisoned
    found, _ = ranks.run(TWO, "tests.ranks.process_state:changed", {}, doing="looking")
    told = {poison for poison in WORKLOADS[name] if any(line.startswith(NAMES[poison]) for line in found)}
    assert told == {*WORKLOADS[name]}, found
    after = shared.train(HEALTHY)
    assert not shared.imported("tests.ranks.poisons")
    assert not {*poisoned} & {*before, *after}
    assert not any(Path(f"/proc/{pid}").exists() for pid in poisoned)  # a busy thread would slow others


@pytest.mark.parametrize(
    "of_a_user",
    [[(HEALTHY, "ddp_default"), (HEALTHY, "bf16")], [("vit_tiny", "tests.hooks_for_tests:float32_for_16_bits")]],
    ids=["workload", "hook"],
)
def test_ranks_that_ran_the_suites_code_serve_a_users_and_then_its_own_tests_only(
    shared: Sets, of_a_user: list[tuple[str, str]]
) -> None:
    shared.sets.close()
    of_the_suite = shared.train("vit_tiny")
    assert [shared.train(*one) for one in of_a_user] == [of_the_suite] * len(of_a_user)
    assert not {*of_the_suite} & {*shared.train("vit_tiny", "bf16")}


def test_each_workload_of_a_user_has_ranks_of_its_own(shared: Sets) -> None:
    """A thread that one leaves would slow the next one, and memory that it keeps count in the peak of the next one."""
    busy = shared.train("tests.ranks.poisons:several")
    assert shared.train("tests.ranks.poisons:several@autocast") == busy
    assert not {*busy} & {*shared.train("tests.ranks.poisons:default_dtype")}
    assert not any(Path(f"/proc/{pid}").exists() for pid in busy)


def test_restarted_ranks_import_the_users_code_again(shared: Sets) -> None:
    shared.train(HEALTHY)
    (ranks,) = shared.sets.of(INTERCONNECTS["native"], code=user_code(HEALTHY))
    ranks.close()
    assert all(ranks.run(TWO, "tests.ranks.rank_faults:has_imported", {"module": HEALTHY.partition(":")[0]}, doing=""))
    assert ranks.code == user_code(HEALTHY)


@pytest.mark.parametrize(
    ("workload", "configs"), [(HEALTHY, RUN_HERE), ("vit_tiny", ["bf16"]), ("vit_tiny@autocast", ["ddp", "single"])]
)
def test_the_suites_own_code_leaves_its_process_as_it_was(shared: Sets, workload: str, configs: list[str]) -> None:
    shared.train(workload)  # a first step imports and initialises
    (ranks,) = shared.sets.of(INTERCONNECTS["native"], code=user_code(workload))
    found = {}
    ranks.run(TWO, "tests.ranks.process_state:changed", {}, doing="watching")
    for config in configs:
        with suppress(CannotRun):
            shared.train(workload, config)
        if any(lines := ranks.run(TWO, "tests.ranks.process_state:changed", {}, doing="looking")):
            found[config] = lines
    assert found == {}


def test_a_launch_that_cannot_run_leaves_no_model_to_the_next_one(shared: Sets) -> None:
    """Its memory would count in the next launch's peak, and may be half of a GPU."""
    (ranks,) = shared.sets.of(INTERCONNECTS["native"], code=user_code(HEALTHY))
    with pytest.raises(CannotRun):
        ranks.run(TWO, "tests.ranks.rank_faults:cannot_run_what_it_built", {}, doing="building")
    assert ranks.run(TWO, "tests.ranks.rank_faults:still_has_what_it_built", {}, doing="asking") == [False, False]


@pytest.mark.parametrize("default", ["default_dtype", "default_device"])
def test_the_suites_own_tensors_do_not_have_the_default(shared: Sets, default: str) -> None:
    """Rank 0 alone has another: a collective whose sizes differ ends the process."""
    shared.train(f"tests.ranks.poisons:{default}")
    shared.train(HEALTHY)
