"""A plugin of pytest, next to fake ranks and GPUs: NCCL logs the variables that it reads, and some make it faster.

What it does not read is in ``UNREAD`` of the environment, separated by commas.
"""

import os
from dataclasses import replace
from typing import Any

from fixtures.launch.protocol import NcclLogRequest, TrainRequest, TrainResult
from fixtures.matrix.worlds import World
from tests import fake_ranks

UNREAD = "DDP_PERF_TESTS_UNREAD"
# Variable and value -> share of a step without it.
SHARES = {("NCCL_MAX_CTAS", "8"): 0.98, ("NCCL_PROTO", "LL128"): 1.05}


def _train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    result = fake_ranks.train(world, rank, arguments)
    share = next((share for (name, value), share in SHARES.items() if os.environ.get(name) == value), 1.0)
    return replace(result, step_s=[share * fake_ranks.step_s()] * len(result.step_s))


def log(world: World, rank: int, arguments: dict[str, Any]) -> str:
    names = ("NCCL_MAX_CTAS", "NCCL_CTA_POLICY", "NCCL_ALGO", "NCCL_PROTO", "TORCH_NCCL_HIGH_PRIORITY")
    read = [name for name in names if name in os.environ and name not in os.environ.get(UNREAD, "").split(",")]
    return "".join(
        f"ProcessGroupNCCL: {name} set to {os.environ[name]}\n"
        if name.startswith("TORCH")
        else f"node:1:9 [0] NCCL INFO {name} set by environment to {os.environ[name]}\n"
        for name in read
    )


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS.update({TrainRequest.function: _train, NcclLogRequest.function: log})
