"""``compare`` with real ranks: which ranks measure, in which order, and when they start."""

import os
import re
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from fixtures.launch.faults import RankFailure
from fixtures.launch.other_side import OtherSide
from fixtures.launch.rank_sets import OWN, RankSet, RankSets
from fixtures.matrix.worlds import World
from fixtures.records.measurement import Launch
from fixtures.session import ab_launches
from fixtures.session.ab_launches import ABResult, compare
from tests.builders import SETTINGS, launch, measured

ONE = World(backend="gloo", size=1)
PID = "tests.ranks.rank_faults:pid"


class Sides:
    """Two sides of two sets of one rank each. events: messages, and the side and process of each launch."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.own, self.other = (
            RankSets(
                launches=2, size=1, on_gpu=False, rank_timeout_s=60, on_message=self.events.append, other_side=side
            )
            for side in (None, OtherSide(variables={"NCCL_MAX_CTAS": "4"}))
        )

    def close(self) -> None:
        self.own.close()
        self.other.close()

    def compare(self, own_s: Sequence[float], minutes: float | None = None) -> ABResult:
        """Launches on this side last ``own_s``, on the other one second."""

        def one(ranks: RankSet, number: int) -> Launch:
            here = ranks.other_side is None
            (pid,) = ranks.run(ONE, PID, {}, doing="asking for the process")
            self.events.append(f"{'here' if here else 'there'} {number} {pid}")
            return launch(own_s[number - 1] if here else 1.0)

        empty: Any = measured("ddp", 1)
        settings = replace(SETTINGS, minutes=minutes)
        return compare(empty, "ddp", self.own, self.other, one, code=OWN, settings=settings, tests=1)


def test_each_further_launch_is_in_new_ranks_that_start_together_before_any_of_them_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ab_launches, "MOST_PAIRS", 6)
    with closing(Sides()) as sides:
        result = sides.compare([1.0, 1.3] * 3)
        again = len(sides.events)
        sides.compare([1.0, 1.0])
    assert (result.verdict.word, len(result.own.launches), len(result.other.launches)) == ("unclear", 6, 6)
    kinds = [" ".join(event.split()[:2]) for event in sides.events[:again]]
    start = ["starting 2", "started in"]
    assert kinds == [
        *(*start, "here 1", "there 1", "there 2", "here 2", "ddp: 14.02"),
        *(*start, "here 3", "there 3", "there 4", "here 4", "ddp: 14.02"),
        *(*start, "here 5", "there 5", "there 6", "here 6"),
    ]
    assert sides.events[0] == "starting 2 x 1 ranks and 2 x 1 ranks with NCCL_MAX_CTAS=4 ..."
    pids = [event.split()[2] for event in sides.events if re.match(r"(here|there) \d", event)]
    assert len(set(pids[:12])) == 12
    assert set(pids[12:]) & set(pids[8:12])  # the next test begins in the live ranks
    assert not any(event.startswith("start") for event in sides.events[again:])


def test_the_minutes_allow_as_many_rounds_as_fit_with_the_start_of_their_ranks() -> None:
    with closing(Sides()) as sides:
        sides.other.start_s = 500.0
        result = sides.compare([1.0, 1.3] * 2, minutes=20)
    assert (result.verdict.word, len(result.own.launches)) == ("unclear", 4)
    (line,) = (event for event in sides.events if event.startswith("ddp: "))
    assert re.search(r"after 2 pairs, unclear; 2 more of at most 2 in new ranks, about 50\d s$", line), line


@pytest.mark.parametrize("broken", ["here", "there"])
def test_after_a_failure_on_one_side_the_next_test_measures_both(broken: str) -> None:
    with closing(Sides()) as sides:

        def fails(ranks: RankSet, number: int) -> Launch:
            (pid,) = ranks.run(ONE, PID, {}, doing="asking for the process")
            if (ranks.other_side is None) == (broken == "here"):
                os.kill(pid, signal.SIGKILL)
                ranks.run(ONE, PID, {}, doing="a launch")
            return launch(1.0)

        empty: Any = measured("ddp", 1)
        with pytest.raises(RankFailure, match=r"a launch: rank 0.* died of SIGKILL"):
            compare(empty, "ddp", sides.own, sides.other, fails, code=OWN, settings=SETTINGS, tests=1)
        assert len(sides.compare([1.0, 1.0]).other.launches) == 2
