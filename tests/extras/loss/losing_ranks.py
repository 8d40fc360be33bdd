"""A plugin of pytest, next to fake ranks: losses that fall from 2 to 1, with seeds 1 % apart, and with a lossy config
higher by ``EXCESS`` of the environment."""

import os
from typing import Any

from fixtures.extras.loss.loss_request import LossResult, WorkloadLossRequest
from fixtures.matrix.configs import find_config
from fixtures.matrix.worlds import World
from tests import fake_ranks

EXCESS = "DDP_PERF_TESTS_EXCESS"


def _losses(_world: World, _rank: int, arguments: dict[str, Any]) -> LossResult:
    steps, seed, config = arguments["steps"], arguments["seed"], find_config(arguments["config"])
    excess = float(os.environ.get(EXCESS, "0")) + 1e-4 * (seed % 2) if config.fidelity == "lossy" else 0.0
    final = 1 + 0.01 * seed + excess
    return LossResult(losses=[max(final, 2 - 2 * step / steps) for step in range(steps)])


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[WorkloadLossRequest.function] = _losses
