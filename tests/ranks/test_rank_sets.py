"""Live ranks: worlds in turn, and every kind of fault."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import pytest

from fixtures.launch import reaper
from fixtures.launch.faults import Kind, RankFailure
from fixtures.launch.processes import Start
from fixtures.launch.protocol import CannotRun, TrainRequest
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.launch.session import Session
from fixtures.matrix.config import Variables
from fixtures.matrix.worlds import INTERCONNECTS, Interconnect, World

ONE = World(backend="gloo", size=1)
TWO = World(backend="gloo", size=2)
VARIABLES = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
PATIENCE_S = 60.0
# For ranks that hang on purpose.
LITTLE_PATIENCE_S = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A function of tests/ranks/rank_faults.py, and the expected diagnosis of rank 1.

    message: the beginning of the message.
    shows: other parts of the report.
    victims: the kinds of fault of rank 0; empty if rank 0 only waits.
    silent: pytest detects the fault only by the rank's silence.
    """

    function: str
    kind: Kind
    message: str
    step: int = -1
    phase: str = ""
    shows: tuple[str, ...] = ()
    victims: tuple[Kind, ...] = ()
    silent: bool = False


ANNOUNCED = (
    Fault(
        function="raises_in_step_7",
        kind="exception",
        message="raised ValueError: the gradients are gone",
        step=7,
        phase="backward",
        shows=("in raises_in_step_7", "at step 7 (backward)"),
    ),
    Fault(function="runs_out_of_memory", kind="oom", message="raised MemoryError", shows=("in runs_out_of_memory",)),
    Fault(
        function="imports_what_is_not_there",
        kind="import",
        message="raised ModuleNotFoundError: No module named 'no_such_module'",
        shows=("in imports_what_is_not_there",),
    ),
    Fault(
        function="answers_what_json_cannot_carry",
        kind="exception",
        message="raised TypeError: Object of type object is not JSON serializable",
    ),
    Fault(function="leaves_a_worker_behind", kind="died", message="exited with code 3"),
    Fault(
        function="gathers_in_another_order",
        kind="died",
        message=(
            "died of SIGABRT: gloo: op.preamble.length <= op.nbytes. 20000 vs 20. "
            "Do ranks issue collectives in different orders?"
        ),
        victims=("comm",),
    ),
    Fault(function="is_killed_in_mid_frame", kind="died", message="died of SIGKILL", victims=("comm",)),
    Fault(
        function="segfaults",
        kind="died",
        message="died of SIGSEGV",
        victims=("comm",),
        shows=("last output of rank 1", "Fatal Python error: Segmentation fault", "in segfaults"),
    ),
    Fault(function="answers_with_a_late_frame", kind="protocol", message="answered call 1 during call"),
)
SILENT = (
    Fault(function="is_stopped", kind="stopped", message="is stopped", victims=("hang",), silent=True),
    Fault(
        function="sleeps",
        kind="stuck",
        message="has made no progress for 1.5 s",
        step=4,
        phase="forward",
        victims=("hang",),
        shows=("in sleeps", "also rank 0 has waited for a collective"),
        silent=True,
    ),
    Fault(
        function="calls_another_collective",
        kind="hang",
        message="has waited for a collective for 1.5 s",
        step=4,
        phase="optimizer step",
        victims=("hang",),
        shows=("in barrier", "in all_reduce"),
        silent=True,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Aftermath:
    """Observations right after a fault."""

    fault: Fault
    failure: RankFailure
    took_s: float
    alive: bool
    left: list[int]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    session = Session()
    yield session
    session.close()


@pytest.fixture(scope="module")
def ranks(session: Session) -> Iterator[RankSet]:
    ranks = RankSet(
        Start(session=session, name="faulty", size=2, on_gpu=False, variables=VARIABLES), rank_timeout_s=PATIENCE_S
    )
    yield ranks
    ranks.close()


@pytest.fixture(scope="module", params=[*ANNOUNCED, *SILENT], ids=lambda fault: fault.function)
def aftermath(request: pytest.FixtureRequest, session: Session, ranks: RankSet) -> Aftermath:
    """Each fault happens once; several tests check its consequences."""
    fault: Fault = request.param
    run(ranks, TWO, "total")  # the ranks are up, and past the sequence number of a late answer
    failure, took_s = failure_of(ranks, fault.function, LITTLE_PATIENCE_S if fault.silent else PATIENCE_S)
    left = reaper.processes_of(session.name)
    return Aftermath(fault=fault, failure=failure, took_s=took_s, alive=ranks.alive, left=left)


def run(ranks: RankSet, world: World, function: str) -> list[Any]:
    return ranks.run(world, f"tests.ranks.rank_faults:{function}", {}, doing=f"running {function}")


def sets_of(launches: int, size: int = 1, say: Callable[[str], None] = lambda text: None) -> RankSets:
    return RankSets(launches=launches, size=size, on_gpu=False, rank_timeout_s=PATIENCE_S, on_message=say)


def failure_of(ranks: RankSet, function: str, patience_s: float) -> tuple[RankFailure, float]:
    began = time.monotonic()
    ranks.rank_timeout_s = patience_s
    with pytest.raises(RankFailure) as failure:
        run(ranks, TWO, function)
    ranks.rank_timeout_s = PATIENCE_S
    return failure.value, time.monotonic() - began


def test_the_rank_to_blame_is_named_first_with_its_traceback_stack_or_output_then_its_victim(
    aftermath: Aftermath,
) -> None:
    (first, *victims), fault = aftermath.failure.faults, aftermath.fault
    assert (first.rank, first.kind, first.step, first.phase) == (1, fault.kind, fault.step, fault.phase)
    assert first.message.startswith(fault.message)
    assert str(aftermath.failure).startswith(f"running {fault.function}: rank 1 {fault.message}")
    assert [(victim.rank, victim.kind) for victim in victims] == [(0, kind) for kind in fault.victims]
    assert not [words for words in fault.shows if words not in str(aftermath.failure)], str(aftermath.failure)
    assert aftermath.took_s < PATIENCE_S / 2  # long before torch would find it


def test_no_process_of_the_set_is_left_and_the_next_run_starts_afresh(aftermath: Aftermath, ranks: RankSet) -> None:
    assert not aftermath.alive
    assert aftermath.left == []
    assert run(ranks, TWO, "total") == [3.0, 3.0]
    assert ranks.alive


def test_a_rank_that_died_between_two_runs_is_named_by_the_next(ranks: RankSet) -> None:
    os.kill(run(ranks, TWO, "pid")[0], signal.SIGKILL)
    failure, _ = failure_of(ranks, "total", PATIENCE_S)
    assert (failure.faults[0].rank, failure.faults[0].message) == (0, "died of SIGKILL")


def test_a_rank_that_imports_is_not_silent(ranks: RankSet) -> None:
    ranks.rank_timeout_s = 2
    run(ranks, TWO, "imports_for_long")
    ranks.rank_timeout_s = PATIENCE_S


@pytest.mark.usefixtures("spawned_ranks")
def test_a_rank_imports_no_pytest_and_with_its_first_optimizer_nothing_more(ranks: RankSet) -> None:
    """The main module, which multiprocessing passes to a new process, is the `pytest` script."""
    ranks.close()
    assert ranks.run(TWO, "tests.ranks.rank_faults:has_imported", {"module": "_pytest"}, doing="") == [False, False]
    assert run(ranks, TWO, "what_an_optimizer_imports") == [[], []]


def test_worlds_take_turns_in_the_same_living_ranks(ranks: RankSet) -> None:
    pids = run(ranks, TWO, "pid")
    totals = [run(ranks, world, "total") for world in (ONE, TWO, ONE, TWO)]
    assert totals == [[1.0], [3.0, 3.0], [1.0], [3.0, 3.0]]
    assert run(ranks, TWO, "pid") == pids


def test_the_store_of_a_world_that_was_left_is_removed(ranks: RankSet, session: Session) -> None:
    for world in (ONE, TWO, ONE):
        run(ranks, world, "total")
        rank_folder = max(session.folder.glob("faulty-*"), key=lambda folder: int(folder.name.rpartition("-")[2]))
        assert len(list(rank_folder.glob("store-*"))) == 1


def test_a_large_answer_arrives_whole_and_a_world_larger_than_the_set_is_refused(ranks: RankSet) -> None:
    assert run(ranks, TWO, "five_megabytes") == ["0" * 5_000_000, "1" * 5_000_000]
    with pytest.raises(ValueError, match="4cpu needs 4 ranks, this set has 2"):
        run(ranks, World(backend="gloo", size=4), "total")


def test_a_config_that_does_not_support_the_workload_is_refused_by_ranks_that_live_on(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    (pid, _) = run(ranks, TWO, "pid")
    workload = "tests.workloads_for_tests:narrow"
    request = TrainRequest(workload=workload, config="powersgd_rank1", world=TWO.name, steps=1, warmup=4)
    with pytest.raises(CannotRun, match=r"^PowerSGD of rank 1 compresses nothing"):
        ranks.ask(TWO, request, doing="training")
    assert run(ranks, TWO, "pid")[0] == pid


def test_ranks_that_one_cannot_use_any_more_are_ended_and_new_ones_start(ranks: RankSet) -> None:
    """As after a capture of a CUDA graph that failed on one rank while the other waits in a collective."""
    before = run(ranks, TWO, "pid")
    began = time.monotonic()
    with pytest.raises(CannotRun, match=r"^a graph cannot capture it$"):
        run(ranks, TWO, "breaks_its_process")
    assert time.monotonic() - began < PATIENCE_S / 2
    assert not ranks.alive
    assert not {*run(ranks, TWO, "pid")} & {*before}


@pytest.mark.parametrize(
    ("at_start", "kind", "message"),
    [
        ("import time; time.sleep(1000)", "stuck", "has made no progress for 1.5 s"),
        ("import os; os._exit(3)", "died", "exited with code 3"),
    ],
)
def test_a_rank_that_does_not_come_up_is_named(
    session: Session, tmp_path: Path, at_start: str, kind: Kind, message: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(at_start)
    variables = {"PYTHONPATH": str(tmp_path)}
    ranks = RankSet(
        Start(session=session, name=tmp_path.name, size=1, on_gpu=False, variables=variables), rank_timeout_s=PATIENCE_S
    )
    ranks.start_timeout_s = LITTLE_PATIENCE_S
    with pytest.raises(RankFailure, match="starting the ranks: rank 0") as failure:
        run(ranks, ONE, "total")
    assert (failure.value.faults[0].kind, failure.value.faults[0].message) == (kind, message)
    assert not ranks.alive


def test_only_the_set_that_failed_is_started_again_and_all_that_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    messages: list[str] = []
    sets = sets_of(2, say=messages.append)
    first, second = sets.of(INTERCONNECTS["native"])
    (pid,) = run(second, ONE, "pid")
    os.kill(run(first, ONE, "pid")[0], signal.SIGKILL)
    with pytest.raises(RankFailure, match="died of SIGKILL"):
        run(first, ONE, "total")
    assert [run(ranks, ONE, "total") for ranks in sets.of(INTERCONNECTS["native"])] == [[1.0], [1.0]]
    assert run(second, ONE, "pid") == [pid]
    starts = [line for line in messages if line.startswith("starting")]
    assert starts == ["starting 2 x 1 ranks ...", "starting 1 x 1 ranks ..."]
    assert f"started in {sets.start_s:.1f} s" in messages
    sets.renew()
    assert reaper.state_of(pid) is None
    assert sets.of(INTERCONNECTS["native"]) == [first, second]
    assert run(second, ONE, "pid") != [pid]
    (pid,) = run(second, ONE, "pid")
    sets.close()
    assert list(tmp_path.iterdir()) == []
    assert reaper.state_of(pid) is None


def test_a_rank_that_hangs_in_a_measured_step_is_reported_with_the_step(ranks: RankSet) -> None:
    asked = {"workload": "tests.workloads_for_tests:hanging", "config": "ddp_default", "world": TWO.name}
    ranks.rank_timeout_s = 5
    with pytest.raises(RankFailure) as failure:
        ranks.run(TWO, TrainRequest.function, {**asked, "steps": 3, "warmup": 4}, doing="training")
    ranks.rank_timeout_s = PATIENCE_S
    assert str(failure.value).startswith("training: rank 1 has made no progress for 5 s at step 5 (forward)")
    assert "in _hangs" in str(failure.value)


@contextmanager
def in_a_shell(folder: Path, rank: int) -> Iterator[None]:
    """A program that starts ranks."""
    python = os.fsdecode(spawn.get_executable())
    script = folder / f"start-{rank}"
    script.write_text(f'#!/bin/sh\n{python} "$@"\n')
    script.chmod(0o700)
    spawn.set_executable(str(script))
    try:
        yield
    finally:
        spawn.set_executable(python)


@pytest.mark.parametrize("kind", ["measured", "profiled", "in a shell"])
def test_another_interconnect_has_ranks_of_its_own(kind: str) -> None:
    sets = sets_of(1)

    def of(interconnect: Interconnect) -> RankSet:
        return {
            "measured": lambda: sets.of(interconnect)[0],
            "profiled": lambda: sets.profiled(interconnect),
            "in a shell": lambda: sets.through(in_a_shell, interconnect, name="shell"),
        }[kind]()

    with closing(sets):
        pids = [run(of(INTERCONNECTS[name]), ONE, "pid")[0] for name in ("shm", "native")]
    assert len(set(pids)) == 2


def test_ranks_with_other_variables_take_turns_and_have_them() -> None:
    """That a rank has them from its first instruction on is shown by test_other_side.py."""
    said: list[str] = []
    sets = sets_of(1, say=said.append)
    native, ctas = INTERCONNECTS["native"], (("NCCL_MAX_CTAS", "8"),)

    def ranks_of(variables: Variables) -> tuple[int, bool]:
        (ranks,) = sets.of(native, variables)
        assert sets.variables == variables
        (limit,) = ranks.run(ONE, "tests.ranks.rank_faults:variable", {"name": "NCCL_MAX_CTAS"}, doing="reading")
        return run(ranks, ONE, "pid")[0], limit == "8"

    with closing(sets):
        first, second, same, third = (ranks_of(variables) for variables in ((), ctas, ctas, ()))
    assert [has for _, has in (first, second, third)] == [False, True, False]
    assert second == same
    assert len({pid for pid, _ in (first, second, third)}) == 3
    assert [line for line in said if line.startswith("starting")] == [
        "starting 1 x 1 ranks ...",
        "starting 1 x 1 ranks with NCCL_MAX_CTAS=8 ...",
        "starting 1 x 1 ranks ...",
    ]


def test_sets_that_start_ahead_come_up_meanwhile_and_again_after_a_kill_or_a_close() -> None:
    sets = sets_of(2)
    first, second = sets.start_ahead(INTERCONNECTS["native"])
    assert first.alive
    assert second.alive
    os.kill(run(first, ONE, "pid")[0], signal.SIGKILL)
    with pytest.raises(RankFailure, match="died of SIGKILL"):
        run(first, ONE, "total")
    assert sets.start_ahead(INTERCONNECTS["native"]) == [first, second]
    assert not first.alive  # its next request starts it
    assert run(first, ONE, "total") == [1.0]
    for again in (sets.start_ahead, sets.of):
        sets.close()
        assert [run(ranks, ONE, "total") for ranks in again(INTERCONNECTS["native"])] == [[1.0], [1.0]]
    sets.close()


def test_all_sets_form_the_world_that_they_are_asked_for() -> None:
    """Also after one has died while the others left theirs."""
    sets = sets_of(2, size=2)
    for world in (ONE, TWO, ONE):
        assert [ranks.is_in(world) for ranks in sets.of(INTERCONNECTS["native"], world=world)] == [True, True]
    first, second = sets.of(INTERCONNECTS["native"])
    os.kill(run(first, ONE, "pid")[0], signal.SIGKILL)
    with pytest.raises(RankFailure, match="died of SIGKILL"):
        sets.of(INTERCONNECTS["native"], world=TWO)
    assert (first.alive, second.alive) == (False, True)
    assert [ranks.is_in(TWO) for ranks in sets.of(INTERCONNECTS["native"], world=TWO)] == [True, True]
    second.leave()
    assert run(second, TWO, "total") == [3.0, 3.0]
    sets.close()


def test_a_rank_that_is_killed_while_it_starts_is_named_and_the_other_sets_are_used_later() -> None:
    with closing(sets_of(3, size=2)) as sets:
        ahead = sets.start_ahead(INTERCONNECTS["native"])
        killed = ahead[0]._processes._pid(1)  # type: ignore[attr-defined]
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(RankFailure, match="rank 1 died of SIGKILL at importing torch"):
            sets.of(INTERCONNECTS["native"], world=TWO)
        assert [ranks.alive for ranks in ahead] == [False, True, True]
        assert [run(ranks, TWO, "total") for ranks in sets.of(INTERCONNECTS["native"], world=TWO)] == [[3.0, 3.0]] * 3


@pytest.mark.parametrize("patience_s", [0, PATIENCE_S])
def test_closing_a_set_ends_a_daemon_with_an_empty_environment(ranks: RankSet, patience_s: float) -> None:
    pids = ranks.run(TWO, "tests.ranks.rank_faults:starts_a_daemon", {}, doing="starting daemons")
    assert [Path(f"/proc/{pid}/environ").read_bytes() for pid in pids] == [b"", b""]
    ranks.close(patience_s=patience_s)
    assert {reaper.state_of(pid) for pid in pids} <= {None, "Z"}


def test_closing_a_session_ends_what_ranks_have_left_and_removes_its_folder() -> None:
    session = Session()
    assert session.folder.stat().st_mode & 0o777 == 0o700
    with daemon(session.name, "import time; time.sleep(1000)") as left:
        session.close()
        assert left.wait(5) == -signal.SIGKILL
        assert reaper.processes_of(session.name) == []
    assert not session.folder.exists()


def test_the_guard_alone_ends_even_what_keeps_forking(tmp_path: Path) -> None:
    name, folder = uuid.uuid4().hex, tmp_path / "folder"
    folder.mkdir()
    with daemon(name, "import os, time\nwhile os.fork(): time.sleep(0.001)\ntime.sleep(1000)") as left:
        deadline = time.monotonic() + 10
        while len(reaper.processes_of(name)) < 20:
            assert time.monotonic() < deadline
        subprocess.run([sys.executable, "-I", "-S", reaper.__file__, name, str(folder)], input=b"", check=True)
        assert left.wait(5) == -signal.SIGKILL
        assert reaper.processes_of(name) == []
    assert not folder.exists()


def test_a_tensor_in_shared_memory_that_is_about_to_be_unlinked_is_not_left() -> None:
    """A loader worker that is killed between creating and unlinking its file leaves it."""
    program = """
import itertools, os
for number in itertools.count():
    file = f"/dev/shm/torch_{os.getpid()}_{number}"
    os.close(os.open(file, os.O_CREAT))
    os.unlink(file)
"""
    for _ in range(5):
        with daemon(uuid.uuid4().hex, program) as worker:
            time.sleep(0.3)
        assert list(Path("/dev/shm").glob(f"torch_{worker.pid}_*")) == []


@contextmanager
def daemon(session: str, program: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this session that no rank waits for."""
    process = subprocess.Popen([sys.executable, "-c", program], env={reaper.MARKER: session}, start_new_session=True)
    try:
        yield process
    finally:
        reaper.end(lambda: reaper.processes_of(session))
        process.wait()
