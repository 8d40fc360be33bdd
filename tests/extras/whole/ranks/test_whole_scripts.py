"""Scripts on two ranks, watched over all of their time."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.extras.whole.whole_account import END, TIME, RankNotes, WholeAccount, WholeRequest, account_of, read
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.lookup import SCRIPT
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from tests.script.conftest import PLAIN, STEP, script, sets  # noqa: F401  # fixtures

Write = Callable[..., Path]
Watched = Callable[..., WholeAccount]

EVALUATION = """
@torch.no_grad()
def estimate_loss():
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        m.module(batch()[0])
"""
BEFORE = f"import time{EVALUATION}{PLAIN}"
WORKS = "until = time.perf_counter() + 0.01\nwhile time.perf_counter() < until: pass\n"


@pytest.fixture
def watched(sets: RankSets, tmp_path: Path) -> Watched:  # noqa: F811
    def watched(path: Path, seconds: float = 60) -> WholeAccount:
        (ranks,) = sets.of(INTERCONNECTS["native"], code=frozenset({SCRIPT}))
        request = WholeRequest(
            workload="x",
            config="as_written",
            world="2cpu",
            steps=1,
            warmup=2,
            path=str(path),
            seconds=seconds,
            notes=str(tmp_path / "notes"),
        )
        try:
            ranks.ask(parse_world("2cpu"), request, doing="all of it")
        finally:
            ranks.close(patience_s=0)
        account = account_of(notes(tmp_path))
        assert account is not None
        return account

    return watched


def notes(folder: Path) -> list[RankNotes]:
    return [read(folder / f"notes{rank}") for rank in (0, 1)]


def line_of(path: Path, text: str) -> str:
    number = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == text)
    return f"train.py:{number}"


def test_an_evaluation_on_all_ranks_has_its_line_and_its_period(watched: Watched, script: Write) -> None:  # noqa: F811
    path = script(BEFORE, f"{WORKS}{STEP}\nif i % 30 == 29: estimate_loss()", steps=140)
    account = watched(path)
    (evaluates,) = account.seldom
    assert evaluates.line == f"{line_of(path, 'if i % 30 == 29: estimate_loss()')} estimate_loss"
    assert (evaluates.number, evaluates.period, evaluates.ranks) == (4, 30, None)
    assert evaluates.event_s == pytest.approx(0.3, rel=0.3)
    assert (account.ended, account.steps) == (END, 140)


def test_a_rank_that_saves_alone_is_named_and_where_others_wait(watched: Watched, script: Write) -> None:  # noqa: F811
    saves = "if i % 30 == 29 and rank == 0:\n    save()"
    path = script(BEFORE.replace("estimate_loss", "save"), f"{WORKS}{STEP}\n{saves}\nif i % 30 == 29: dist.barrier()")
    (saved,) = watched(path).seldom
    assert saved.line == f"{line_of(path, 'save()')} save"
    assert saved.ranks == [0]
    assert saved.waits_in == line_of(path, "if i % 30 == 29: dist.barrier()")


def test_each_epoch_ends_with_its_evaluation(watched: Watched, script: Write) -> None:  # noqa: F811
    epochs = "for _ in range(20):\n" + "".join(f"    {line}\n" for line in f"{WORKS}{STEP}".splitlines())
    (evaluates,) = watched(script(BEFORE, f"{epochs}estimate_loss()", steps=5)).seldom
    assert (evaluates.number, evaluates.period) == (4, 20)  # the last one is after the last step


def test_time_ends_a_script_on_all_ranks_wherever_they_are(
    watched: Watched,
    script: Write,  # noqa: F811
    tmp_path: Path,
) -> None:
    account = watched(script(BEFORE, f"{WORKS}{STEP}\nif i == 50: time.sleep(600 * rank)", steps=10**6), seconds=8)
    assert account.steps >= 51
    assert {rank.ended for rank in notes(tmp_path)} == {TIME}


@pytest.mark.parametrize(("who", "says"), [("", ""), (" and rank == 1", "rank 1 raised ")], ids=["all", "one"])
def test_a_script_that_raises_keeps_what_was_seen(watched: Watched, script: Write, who: str, says: str) -> None:  # noqa: F811
    began = time.monotonic()
    account = watched(script(BEFORE, f"{STEP}\nif i == 60{who}: raise ValueError('no more data')"))
    assert account.steps == 61
    assert account.ended == f"{says}ValueError: no more data"
    assert time.monotonic() - began < 30  # of 60
