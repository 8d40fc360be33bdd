"""A plugin of pytest, next to fake ranks: one config is slower, one fails, and a signal comes before a launch.

SLOWER, FAILING: names of configs. SLOW_LAUNCHES: so many launches of SLOWER are; all if it is not set.
FAILS_AGAIN: the second launch of SLOWER fails.
INTERRUPT: number of the launch before which Ctrl-C is pressed, of all of the run. SEEN: file with the launches.
The pause before a slower test is launched once more is short.
"""

import os
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import TrainRequest, TrainResult
from fixtures.matrix.worlds import World
from fixtures.session import run_verdict
from tests import fake_ranks

SLOWER, FAILING, FAILS_AGAIN, SLOW_LAUNCHES, INTERRUPT, SEEN = (
    f"DDP_PERF_TESTS_{name}" for name in ("SLOWER", "FAILING", "FAILS_AGAIN", "SLOW_LAUNCHES", "INTERRUPT", "SEEN")
)
PAUSE_S = 1
_all, _slower, _launches = count(1), count(1), count(1)
_slow = False


def _train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    global _slow
    config = arguments["config"]
    if rank == 0:
        if str(next(_all)) == os.environ.get(INTERRUPT):
            os.kill(os.getpid(), signal.SIGINT)
        with Path(os.environ[SEEN]).open("a") as seen:
            seen.write(f"{'profile ' if arguments['profile'] else ''}{config}\n")
        _slow = config == os.environ.get(SLOWER) and next(_slower) <= int(os.environ.get(SLOW_LAUNCHES, "99"))
    again = _slow and os.environ.get(FAILS_AGAIN) and next(_launches) > world.size
    if config == os.environ.get(FAILING) or again:
        raise RankFailure([], "a launch", "the config fails")
    result = fake_ranks.train(world, rank, arguments)
    return replace(result, step_s=[2 * step_s for step_s in result.step_s]) if _slow else result


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[TrainRequest.function] = _train
    setattr(run_verdict, "PAUSE_S", PAUSE_S)  # noqa: B010  # not its own name
