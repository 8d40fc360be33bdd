"""A plugin of pytest, next to fake ranks: steps whose length depends on the config, and answers of gradient checks.

Of ViT-L/32's gradients. Buckets of 37 MB are the fastest, NCCL_MAX_CTAS=8 gains 2 %, bf16 20 %, autocast 50 %, no
communication 30 %. ``WRONG`` of the environment names a hook whose gradients are wrong; after ``INTERRUPTED_AFTER``
launches the run gets SIGINT.
"""

import math
import os
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from fixtures.launch.faults import RankFailure, RankFault
from fixtures.launch.protocol import CannotRun, InterleaveRequest, NcclLogRequest, TrainRequest, TrainResult
from fixtures.matrix.config import Config
from fixtures.matrix.configs import find_config
from fixtures.matrix.worlds import World
from tests import fake_ranks
from tests.runs import nccl_that_reads

WRONG, INTERRUPTED_AFTER = "DDP_PERF_TESTS_WRONG", "DDP_PERF_TESTS_INTERRUPTED_AFTER"
# Configs with such a name have another gradient than the mean on the workload.
WRONG_HERE = "DDP_PERF_TESTS_WRONG_HERE"
# A workload whose gradients are not finite, which a launch sees that compares them.
NOT_FINITE = "tests.workloads_for_tests:not_a_number"
NOT_FINITE_FAULT = RankFault(
    rank=0,
    kind="exception",
    step=0,
    phase="comparing gradients",
    message="raised FloatingPointError: they are not finite",
)
SCRIPT = "fixtures.ranks.script.running:train"
GRADIENT_BYTES = 1167 << 20
BEST_MB = 37
SHARES = {"bf16": 0.8, "no_comm": 0.7, "tests.hooks_for_tests:fast_and_wrong": 0.6}
_launches = 0


def share_of(config: Config, *, ctas: str | None, autocast: bool) -> float:
    """Time of a step over that of the fastest bucket without other settings."""
    size = config.bucket_cap_mb or 25
    share = 1 + 0.01 * math.log(min(size, 1167) / BEST_MB) ** 2
    share *= 1 if config.gradient_as_bucket_view else 1.01
    of_nccl = 0.98 if ctas == "8" else 1.0
    return share * SHARES.get(config.hook, 1.0) * of_nccl * (0.5 if autocast else 1.0)


def _train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    global _launches
    _launches += rank == 0
    if str(_launches) == os.environ.get(INTERRUPTED_AFTER):
        os.kill(os.getpid(), signal.SIGINT)
    if arguments["workload"] == NOT_FINITE and arguments["check_gradients"]:
        raise RankFailure([replace(NOT_FINITE_FAULT, rank=rank)], "pass 1 of ddp_default")
    result = fake_ranks.train(world, rank, arguments)
    if arguments["check_gradients"] and os.environ.get(WRONG_HERE, " ") in arguments["config"]:
        result = replace(result, gradient_error=0.5, gradient_lossless=False)
    autocast, ctas = arguments["workload"].endswith("@autocast"), os.environ.get("NCCL_MAX_CTAS")
    share = share_of(find_config(arguments["config"]), ctas=ctas, autocast=autocast)
    # The same launch of two runs differs as little as those of a quiet GPU.
    noise = 1 + 5e-4 * math.sin(1e3 * _launches)
    gradients = [(GRADIENT_BYTES, 4)]
    return replace(result, step_s=[0.1 * share * noise] * len(result.step_s), gradients=gradients)


def _interleave(world: World, rank: int, arguments: dict[str, Any]) -> list[list[list[float]]]:
    """Blocks that vary by 0.1 %."""
    asked = InterleaveRequest(**arguments)
    shares = []
    for workload, name in zip(asked.workloads, asked.configs, strict=True):
        config = find_config(name)
        ctas, autocast = dict(config.variables).get("NCCL_MAX_CTAS"), workload.endswith("@autocast")
        shares.append(share_of(config, ctas=ctas, autocast=autocast))
    rounds = [1 + 1e-3 * math.sin(7 * number) for number in range(asked.rounds[0])]
    return [[[0.1 * share * noise for noise in rounds]] * asked.copies for share in shares]


def _train_script(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    """A script that accumulates, with ``steady``'s model."""
    if find_config(arguments["config"]).static_graph:
        raise CannotRun("DDP's static_graph excludes its no_sync", broken=True)
    asked = {one.name: arguments[one.name] for one in fields(TrainRequest)}
    return _train(world, rank, asked | {"workload": "tests.workloads_for_tests:steady"})


def _checked(check: str) -> Callable[[World, int, dict[str, Any]], Any]:
    def answer(world: World, rank: int, arguments: dict[str, Any]) -> list[str]:
        wrong = arguments["hook"] == os.environ.get(WRONG)
        return [f"{check} of {arguments['hook']} is wrong"] if wrong else []

    return answer


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS.update(
        {
            SCRIPT: _train_script,
            TrainRequest.function: _train,
            InterleaveRequest.function: _interleave,
            NcclLogRequest.function: nccl_that_reads.log,
        }
    )
    fake_ranks.answer_checks(_checked)
