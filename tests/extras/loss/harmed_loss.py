"""A plugin of pytest, next to fake ranks: every check of a hook passes, but under a user's own hook the small problem
ends with a loss that is 5.6 % higher."""

from dataclasses import replace
from typing import Any

from fixtures.extras.loss.loss_request import SmallProblemRequest, SmallProblemResult
from fixtures.matrix.worlds import World
from tests import fake_ranks

_USUAL = fake_ranks.ANSWERS[SmallProblemRequest.function]


def _train_small(world: World, rank: int, arguments: dict[str, Any]) -> SmallProblemResult:
    usual = SmallProblemResult(**_USUAL(world, rank, arguments))
    harm = 1.056 + 1e-4 * arguments["seed"] if ":" in arguments["hook"] else 1.0
    return replace(usual, losses=[*usual.losses[:-1], usual.losses[-1] * harm])


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.answer_checks(lambda check: lambda *_: [])
    fake_ranks.ANSWERS[SmallProblemRequest.function] = _train_small
