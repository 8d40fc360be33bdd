"""Ranks that answer from a table, for runs of pytest that test storage, JUnit, tables and options, not ranks.

A plugin: ``pytest perf ... -p tests.fake_ranks``. No process is started and nothing is measured. The table is ANSWERS;
how long a step takes is in ``STEP_MS`` of the environment, as for the workload ``steady`` of live ranks.
"""

import os
import platform
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from fixtures.gradients.replay import path
from fixtures.launch import rank_sets
from fixtures.launch.protocol import (
    CanaryRequest,
    InterleaveRequest,
    NcclLogRequest,
    PreflightRequest,
    PreflightResult,
    SoftwareRequest,
    SourcesRequest,
    TrainRequest,
    TrainResult,
    TransferRequest,
    WorkloadFingerprint,
    to_json,
)
from fixtures.launch.rank_sets import RankSet
from fixtures.launch.session import environment
from fixtures.matrix.configs import find_config
from fixtures.matrix.transfers import TRANSFERS
from fixtures.matrix.workloads import Workload, find_workload
from fixtures.matrix.worlds import World, parse_world
from fixtures.stats.kept_by_steps import OBJECTS, Kept
from fixtures.stats.stopping_rule import BLOCK, is_precise_enough
from fixtures.trace.breakdown import Collective, RankBreakdown
from tests.h200 import step as four_parts
from tests.workloads_for_tests import STEP_MS

# Name, bytes and elements of each parameter's gradient, of the model of the workload ``steady``.
PARAMETERS = [("0.weight", 16384, 4096), ("0.bias", 256, 64), ("2.weight", 16384, 4096), ("2.bias", 256, 64)]
GRADIENT_BYTES = sum(size for _, size, _ in PARAMETERS)
COMPUTE_MS, COMMUNICATION_MS = 1.0, 0.25
FLOPS_PER_SAMPLE = 3 * 2 * 2 * 4096

# The answer of this rank. Any: the arguments of a request, and a result or what JSON can carry.
Answer = Callable[[World, int, dict[str, Any]], Any]


def step_s() -> float:
    """Seconds of a step. No two runs take the same time to the last bit, as none that are measured do."""
    return float(os.environ.get(STEP_MS, "20")) / 1e3 * (1 + 1e-13 * (_began_ns % 10**9))


_began_ns = 0


def train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    asked = TrainRequest(**arguments)
    config = find_config(asked.config)
    lossy = config.hook in ("bf16", "fp16")
    wrapped = asked.config != "single"
    ddp = wrapped and not config.in_fsdp2
    # Nor do two configs.
    own = 1 + 1e-6 * (zlib.crc32(f"{asked.config} {world.name}".encode()) % 1000)
    apart = (0, 1) if asked.workload.endswith(":restless") else (0, 0.001, 0.002)
    steps = _until_precise([step_s() * own * (1 + apart[n % len(apart)]) for n in range(asked.steps)], asked)
    wire_bytes = 2 * (world.size - 1) * GRADIENT_BYTES // (2 if lossy else 1)
    return TrainResult(
        step_s=steps,
        phases_s={
            "input": [0.0001] * len(steps),
            "forward": [step - 0.0011 for step in steps],
            "backward": [0.0008] * len(steps),
            "optimizer": [0.0002] * len(steps),
        },
        host_lead_s=None,
        spent_s={"build": 0.1, "warm-up": 0.1, "window": sum(steps), "comparison": 0.1, "profile": 0.1},
        peak_memory_bytes=(70_000_000 if config.in_fsdp2 else 100_000_000) + rank,
        steady_memory_bytes=100_000_000 + rank if world.backend == "nccl" else None,
        capture_s=None,
        graph_memory_bytes=None,
        bucket_bytes=[GRADIENT_BYTES] if ddp else [],
        buckets=[PARAMETERS] if ddp else [],
        wire_bytes_per_step=wire_bytes,
        wire_dtype="bfloat16" if lossy else "float32",
        issued_bytes_per_step=wire_bytes if asked.profile and world.size > 1 else None,
        issued_dtypes=["float32"] if asked.profile and world.size > 1 else None,
        gradient_error=(2e-3 if lossy else 0.0) if asked.check_gradients and wrapped else None,
        gradient_lossless=not lossy if asked.check_gradients and wrapped else None,
        gradients=[(size, size // elements) for _, size, elements in PARAMETERS],
        workload_fingerprint=_fingerprint(find_workload(asked.workload)),
        hook_options={},
        flops_per_sample={"matrix product": FLOPS_PER_SAMPLE, "convolution": 0} if asked.count_flops else None,
        sharded_blocks=["layers"] if config.in_fsdp2 else [],
        breakdown=_break_down(world, rank) if asked.profile else None,
        kept=[Kept(of=OBJECTS, number=6, type="list", of_type=6)],
    )


def _fingerprint(workload: Workload) -> WorkloadFingerprint:
    """Every workload has the model of ``steady``, and its own batch size."""
    return WorkloadFingerprint(
        parameters=len(PARAMETERS),
        parameter_elements=sum(elements for _, _, elements in PARAMETERS),
        parameter_dtypes=["float32"],
        parameters_sha256="0" * 64,
        buffers=0,
        buffer_elements=0,
        buffers_sha256="0" * 64,
        sample=["float32[64]"],
        batch_size=workload.batch_size,
        optimizer="SGD",
        optimizer_options={"lr": "0.001"},
        find_unused_parameters=workload.find_unused_parameters,
        activation_dtypes=["float32"],
        float32_matmul_precision="highest",
        cudnn_allow_tf32=None,
    )


def _until_precise(steps_s: list[float], asked: TrainRequest) -> list[float]:
    """Those of these steps that are measured, where no step is too long for it."""
    for number in range(BLOCK, len(steps_s), BLOCK) if asked.precision_percent else ():
        if is_precise_enough(steps_s[:number], asked.precision_percent):
            return steps_s[:number]
    return steps_s


def _break_down(world: World, rank: int) -> RankBreakdown:
    compute_ns, communication_ns = round(1e6 * COMPUTE_MS), round(1e6 * COMMUNICATION_MS) if world.size > 1 else 0
    length_ns = round(1e9 * step_s())
    all_reduce = Collective(
        what="all_reduce",
        ns=communication_ns,
        start_ns=500_000,
        ready_ns=400_000,
        exposed_ns=communication_ns,
        elements=GRADIENT_BYTES // 4,
        dtype="float32",
    )
    step = replace(
        four_parts(compute_ns / 1e6, communication_ns / 1e6, 0, (length_ns - compute_ns - communication_ns) / 1e6),
        collectives=(all_reduce,) if world.size > 1 else (),
        phase_ns={"get batch": 100_000, "forward": length_ns - 1_100_000, "backward": 800_000},
    )
    return RankBreakdown(source=f"rank{rank}", rank=rank, on_gpu=False, steps=(step,) * 5)


def _transfer(world: World, rank: int, arguments: dict[str, Any]) -> list[float]:
    asked = TransferRequest(**arguments)
    return [1e-4 + TRANSFERS[asked.transfer].bytes / 1e10] * asked.steps


def _interleave(world: World, rank: int, arguments: dict[str, Any]) -> list[list[list[float]]]:
    """Copies that take equally long, up to what a block varies."""
    asked = InterleaveRequest(**arguments)
    rounds = [step_s() * (1 + 0.001 * (number % 3)) for number in range(asked.rounds[0])]
    return [[rounds] * asked.copies for _ in asked.configs]


def _time_canaries(world: World, rank: int, arguments: dict[str, Any]) -> dict[str, list[float]]:
    one = {"matrix_product_256": 1e-4, "memory_copy_16mb": 2e-3}
    between = {"all_reduce_64kb": 2e-4, "all_reduce_4mb": 3e-3} if parse_world(arguments["world"]).size > 1 else {}
    return {name: [time_s] * 15 for name, time_s in (one | between).items()}


def _describe(world: World, rank: int, arguments: dict[str, Any]) -> dict[str, Any] | None:
    if rank != 0:
        return None
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "cuda": None,
        "nccl": None,
        "cudnn": None,
        "device": None,
        "packages": {},
        "modules": dict.fromkeys(arguments["modules"]),
        "variables": {"OMP_NUM_THREADS": "1"}
        | {name: os.environ[name] for name in arguments["variables"] if name in os.environ},
    }


def _train_small(world: World, rank: int, arguments: dict[str, Any]) -> dict[str, list[float]]:
    steps, every = arguments["steps"], arguments["every"]
    return {"losses": [1 / (1 + step) for step in range(0, steps + 1, every)]}


def _preflight(workload: str) -> PreflightResult:
    unused = ["experts.1.weight"] if workload.endswith(":left_out") else []
    return PreflightResult(unused=unused, parameters=4, batch="float32 (2, 64)")


# Function -> its answer.
ANSWERS: dict[str, Answer] = {
    TrainRequest.function: train,
    NcclLogRequest.function: lambda world, rank, arguments: "",
    TransferRequest.function: _transfer,
    CanaryRequest.function: _time_canaries,
    InterleaveRequest.function: _interleave,
    SoftwareRequest.function: _describe,
    SourcesRequest.function: lambda world, rank, arguments: {},
    "fixtures.extras.loss.in_rank.loss_training:train_small_problem": _train_small,
    PreflightRequest.function: lambda world, rank, arguments: _preflight(arguments["workload"]),
}


def answer_checks(answer: Callable[[str], Answer]) -> None:
    """Answer every check of gradients, for the rest of this process."""
    from tests.gradient_checks import CHECKS  # here and not at the top: it imports torch and its compiler

    ANSWERS.update({path(check): answer(check) for check in CHECKS})


class FakeRankSet(RankSet):
    """A set without processes."""

    _up = False

    @property
    def alive(self) -> bool:
        return self._up

    def start(self, code: frozenset[str] = frozenset()) -> None:
        self._up = True

    def await_ready(self) -> None:
        """They are."""

    def is_in(self, world: World) -> bool:
        return True

    def begin_import(self, code: frozenset[str]) -> None:
        self.code = code

    def run(self, world: World, function: str, arguments: dict[str, Any], *, doing: str) -> list[Any]:
        self._up = True
        answer = ANSWERS[function]
        with environment(self.asked.variables):
            return [to_json(answer(world, rank, arguments)) for rank in range(world.size)]

    def dismiss(self) -> None:
        """There is nobody."""

    def close(self, *, patience_s: float = 0) -> None:
        self._up, self.code = False, frozenset()


def pytest_configure() -> None:
    """For the rest of this process."""
    from fixtures.machine import cpu

    global _began_ns
    _began_ns = time.time_ns()
    setattr(cpu, "BUSY_SHARE", float("inf"))  # noqa: B010  # ranks that do nothing feel no other work
    setattr(rank_sets, "RankSet", FakeRankSet)  # noqa: B010
