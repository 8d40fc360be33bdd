"""A plugin of pytest: fake ranks whose step time is a number in the source of their side's ``my_job.training``.

So a bisection is as quick as its runs of pytest, and which commit is on which side decides what is found.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fixtures.launch import rank_sets
from fixtures.launch.protocol import TrainRequest
from fixtures.matrix.worlds import World
from tests import fake_ranks
from tests.fake_ranks import FakeRankSet


def _sleep_s(path: Sequence[str]) -> float:
    """The time that the job on this module search path sleeps."""
    files = (Path(entry) / "my_job/training.py" for entry in path)
    source = next(file for file in files if file.exists()).read_text()
    found = re.search(r"time\.sleep\(([\d.]+)\)", source)
    assert found is not None, source
    return float(found[1])


class JobRankSet(FakeRankSet):
    """One of either side."""

    def run(self, world: World, function: str, arguments: dict[str, Any], *, doing: str) -> list[Any]:
        values = super().run(world, function, arguments, doing=doing)
        if function != TrainRequest.function:
            return values
        theirs = None if self.other_side is None else self.other_side.interpreter
        step_s = _sleep_s(sys.path if theirs is None else theirs.path)
        return [{**value, "step_s": [step_s] * len(value["step_s"])} for value in values]


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.pytest_configure()
    setattr(rank_sets, "RankSet", JobRankSet)  # noqa: B010
