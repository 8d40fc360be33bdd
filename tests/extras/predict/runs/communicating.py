"""A plugin of pytest, next to fake ranks: workloads whose steps communicate for the times in STEPS.

All of a step but its communication is compute, of which a config that communicates has SLOWED_MS more than one that
does not, and REST_MS of idle.
"""

from dataclasses import dataclass, replace
from typing import Any

from fixtures.launch.protocol import TrainRequest, TrainResult
from fixtures.matrix.configs import find_config
from fixtures.matrix.worlds import World
from fixtures.trace.breakdown import Collective, RankBreakdown
from tests import fake_ranks
from tests.h200 import step as four_parts
from tests.workloads_for_tests import steady

MB = 1 << 20
# The gradients of four layers, in the model's order: name, bytes and elements.
LAYERS = [(f"{number}.weight", 16 * MB, 4 * MB) for number in range(4)]
ALONE_MS, BACKWARD_MS = 20.0, 8.0
SLOWED_MS, REST_MS = 1.0, 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Its time in addition to ALONE_MS, and the number of layers in each bucket."""

    exposed_ms: float = 0.0
    buckets: tuple[int, ...] = (4,)

    @property
    def ms(self) -> float:
        more_ms = SLOWED_MS + REST_MS if self.exposed_ms else 0.0
        return ALONE_MS + self.exposed_ms + more_ms


# Workload -> config -> step. bfloat16 gains for one workload and loses for the other.
STEPS = {
    "wide": {
        "ddp": Step(exposed_ms=24),
        "ddp_default": Step(exposed_ms=16, buckets=(1, 2, 1)),
        "bf16": Step(exposed_ms=10),
        "no_comm": Step(),
    },
    "slow_to_cast": {
        "ddp": Step(exposed_ms=4),
        "ddp_default": Step(exposed_ms=3, buckets=(1, 2, 1)),
        "bf16": Step(exposed_ms=9),
        "no_comm": Step(),
    },
}

wide, slow_to_cast = (replace(steady, name=name) for name in STEPS)


def _step(asked: TrainRequest) -> Step:
    return STEPS[asked.workload.partition(":")[2]][asked.config]


def _train(world: World, rank: int, arguments: dict[str, Any]) -> TrainResult:
    asked = TrainRequest(**arguments)
    step, layers = _step(asked), iter(LAYERS)
    ms = {"input": 0.0, "backward": BACKWARD_MS + step.exposed_ms, "optimizer": 1.0}
    ms["forward"] = step.ms - sum(ms.values())
    return replace(
        fake_ranks.train(world, rank, arguments),
        step_s=[step.ms / 1e3 * (1 + fake_ranks.jitter())] * asked.steps,
        phases_s={phase: [each / 1e3] * asked.steps for phase, each in ms.items()},
        bucket_bytes=[layers_in * 16 * MB for layers_in in step.buckets],
        buckets=[[next(layers) for _ in range(layers_in)] for layers_in in step.buckets],
        gradients=[(size, size // elements) for _, size, elements in LAYERS],
        breakdown=_break_down(rank, asked) if asked.profile else None,
    )


def _break_down(rank: int, asked: TrainRequest) -> RankBreakdown:
    step = _step(asked)
    exposed_ns, length_ns = round(1e6 * step.exposed_ms), round(1e6 * step.ms)
    compute_ns = round(1e6 * (ALONE_MS + (SLOWED_MS if exposed_ns else 0)))
    sent = [
        Collective(
            what="all_reduce",
            ns=exposed_ns // len(step.buckets),
            start_ns=1000 * (number + 1),
            ready_ns=500,
            exposed_ns=exposed_ns // len(step.buckets),
            elements=layers_in * 4 * MB,
            dtype="float32",
        )
        for number, layers_in in enumerate(step.buckets)
        if find_config(asked.config).hook != "no_comm"
    ]
    broken_down = replace(
        four_parts(compute_ns / 1e6, exposed_ns / 1e6, 0, (length_ns - compute_ns - exposed_ns) / 1e6),
        collectives=tuple(sent),
        phase_ns={"get batch": 0, "backward": round(1e6 * BACKWARD_MS) + exposed_ns},
    )
    return RankBreakdown(source=f"rank{rank}", rank=rank, on_gpu=False, steps=(broken_down,) * 5)


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[TrainRequest.function] = _train
