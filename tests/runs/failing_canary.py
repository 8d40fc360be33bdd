"""A plugin of pytest, next to fake ranks of a world of one: a rank dies while canaries are timed after the tests."""

from typing import NoReturn

from fixtures.launch.faults import RankFailure
from tests.runs import jumping_canary


def _die(times: object) -> NoReturn:
    raise RankFailure([], "timing the canaries", "rank 0 was killed by SIGKILL")


def pytest_configure() -> None:
    """For the rest of this process."""
    jumping_canary.time_after_the_tests(_die)
