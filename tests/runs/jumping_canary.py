"""A plugin of pytest, next to fake ranks of a world of one: canaries take twice as long after the tests as before."""

from collections.abc import Callable
from itertools import count
from typing import Any

from fixtures.launch.protocol import CanaryRequest
from tests import fake_ranks

LAUNCHES = 2
Times = dict[str, list[float]]


def time_after_the_tests(change: Callable[[Times], Times]) -> None:
    """Answer with other times after the tests than before, for the rest of this process."""
    usual, calls = fake_ranks.ANSWERS[CanaryRequest.function], count()

    # Any: a world, and the arguments of a request.
    def answer(*asked: Any) -> Times:
        times: Times = usual(*asked)
        return times if next(calls) < 2 * LAUNCHES else change(times)  # each is timed twice before the tests

    fake_ranks.ANSWERS[CanaryRequest.function] = answer


def pytest_configure() -> None:
    time_after_the_tests(lambda times: {name: [2 * s for s in took] for name, took in times.items()})
