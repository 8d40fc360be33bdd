"""Code inside a rank for test_interleaved.py and test_nccl_log.py: what configs that take turns build, and leave."""

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from fixtures.launch.protocol import CannotRun, InterleaveRequest
from fixtures.ranks.context import RankContext
from fixtures.ranks.interleaved import interleave


def models_left(ctx: RankContext) -> int:
    """Let configs take turns, and return how many of their DDP modules are still in memory."""
    built: list[weakref.ref[DistributedDataParallel]] = []
    _take_turns(ctx, ["ddp_default", "bf16"], copies=2, on_built=lambda ddp: built.append(weakref.ref(ddp)))
    assert len(built) == 4
    return sum(module() is not None for module in built)


def freed_between(ctx: RankContext) -> int:
    """Let configs take turns, and return how often memory was freed for the next one, which graphs may use."""
    with patch("fixtures.ranks.training.reset_peak_memory") as reset:
        _take_turns(ctx, ["ddp_default", "bf16"], copies=1, on_built=lambda ddp: None)
    return reset.call_count


def built_after_a_failed_capture(ctx: RankContext) -> int:
    """Let configs that are not required take turns, and return how many were tried."""
    cannot = CannotRun("a CUDA graph cannot capture its step", broken=True)
    with patch("fixtures.ranks.interleaved._warmed_up", side_effect=cannot) as tried, suppress(CannotRun):
        _take_turns(ctx, ["ddp_default", "bf16"], copies=1, on_built=lambda ddp: None, required=False)
    return tried.call_count


def dtypes(ctx: RankContext, *, workloads: list[str]) -> dict[str, list[str]]:
    """Let ``ddp_default`` of these workloads take turns. Returns the dtypes of the models' outputs, by workload, and of
    a matrix product afterwards."""
    seen: dict[str, set[str]] = {"left": {str((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)}}
    under = iter([*workloads])

    def note(ddp: DistributedDataParallel) -> None:
        own = seen.setdefault(next(under), set())
        ddp.module.register_forward_hook(lambda module, inputs, output: own.add(str(output.dtype)))

    _take_turns(ctx, ["ddp_default"] * len(workloads), workloads=workloads, copies=1, on_built=note)
    return {name: sorted(found) for name, found in seen.items()}


def groups(ctx: RankContext, *, configs: list[str]) -> dict[str, object]:
    """Let configs take turns, and write a line to NCCL's log whenever one is wrapped.

    Returns for each DDP module whether it has the default group, in their order, and the number of groups at the end.
    """
    default = distributed.distributed_c10d._get_default_group()
    of_default: list[bool] = []

    def note(ddp: DistributedDataParallel) -> None:
        of_default.append(ddp.process_group is default)
        write(ctx, text=f"wrapped {len(of_default)}\n")

    _take_turns(ctx, configs, copies=1, on_built=note)
    return {"of_default": of_default, "groups": len(distributed.distributed_c10d._world.pg_map)}


def _take_turns(
    ctx: RankContext,
    configs: list[str],
    *,
    copies: int,
    on_built: Callable[[DistributedDataParallel], None],
    workloads: list[str] | None = None,
    required: bool = True,
) -> None:
    original = DistributedDataParallel.__init__

    # Any: DDP's arguments.
    def noting(self: DistributedDataParallel, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        on_built(self)

    request = InterleaveRequest(
        workloads=workloads or ["vit_tiny"] * len(configs),
        configs=configs,
        world="2cpu",
        copies=copies,
        warmup=3,
        block=1,
        rounds=(3, 3),
        seconds=0,
        required=required,
    )
    DistributedDataParallel.__init__ = noting  # type: ignore[method-assign]
    try:
        interleave(ctx, request)
    finally:
        DistributedDataParallel.__init__ = original  # type: ignore[method-assign]


def subsystems(ctx: RankContext) -> dict[str, str]:
    """Return the subsystems that NCCL would log, and its log file."""
    return {name: os.environ[name] for name in ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")}


def write(ctx: RankContext, *, text: str) -> int:
    """Append to the file in NCCL_DEBUG_FILE like NCCL. Returns the process id."""
    with Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid()))).open("a") as log:
        log.write(text)
    return os.getpid()
