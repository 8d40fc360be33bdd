"""A plugin of pytest, next to fake ranks: the answers of ranks of the other build of ``--against``.

A launch takes FACTOR times as long as one of this build, and every second one SPREAD times as long as the others. With
CANNOT set they cannot train, for that reason.
"""

import os
from itertools import count
from typing import Any

from fixtures.launch import rank_sets
from fixtures.launch.protocol import CannotRun, TrainRequest, TransferRequest
from fixtures.matrix.worlds import World
from tests.fake_ranks import FakeRankSet

FACTOR, SPREAD, CANNOT = (f"DDP_PERF_TESTS_OTHER_{name}" for name in ("FACTOR", "SPREAD", "CANNOT"))

_launches = count()


class BuildRankSet(FakeRankSet):
    """One of either build."""

    def run(self, world: World, function: str, arguments: dict[str, Any], *, doing: str) -> list[Any]:
        values = super().run(world, function, arguments, doing=doing)
        if self.other_side is None or function not in (TrainRequest.function, TransferRequest.function):
            return values
        if reason := os.environ.get(CANNOT):
            raise CannotRun(reason)
        factor = float(os.environ.get(FACTOR, "1")) * float(os.environ.get(SPREAD, "1")) ** (next(_launches) % 2)
        if function == TransferRequest.function:
            return [[step_s * factor for step_s in value] for value in values]
        return [{**value, "step_s": [step_s * factor for step_s in value["step_s"]]} for value in values]


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(rank_sets, "RankSet", BuildRankSet)  # noqa: B010
