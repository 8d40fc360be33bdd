"""Code inside a rank for test_nccl_log.py: NCCL's log settings, writing to its log file, and groups of their own."""

import os
from pathlib import Path
from typing import Any

from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from fixtures.launch.protocol import InterleaveRequest
from fixtures.ranks.context import RankContext
from fixtures.ranks.interleaved import interleave


def subsystems(ctx: RankContext) -> dict[str, str]:
    """Return the subsystems that NCCL would log, and its log file."""
    return {name: os.environ[name] for name in ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")}


def write(ctx: RankContext, *, text: str) -> int:
    """Append to the file in NCCL_DEBUG_FILE like NCCL. Returns the process id."""
    with Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid()))).open("a") as log:
        log.write(text)
    return os.getpid()


def turns(ctx: RankContext, *, configs: list[str]) -> dict[str, object]:
    """Let configs take turns, and write a line to NCCL's log whenever one is wrapped.

    Returns for each DDP module whether it has the default group, in their order, and the number of groups at the end.
    """
    default = distributed.distributed_c10d._get_default_group()
    of_default: list[bool] = []
    original = DistributedDataParallel.__init__

    # Any: DDP's arguments.
    def noting(self: DistributedDataParallel, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        of_default.append(self.process_group is default)
        write(ctx, text=f"wrapped {len(of_default)}\n")

    DistributedDataParallel.__init__ = noting  # type: ignore[method-assign]
    more = {"copies": 1, "warmup": 3, "block": 1, "rounds": (3, 3), "seconds": 0.0}
    try:
        interleave(ctx, InterleaveRequest(workload="vit_tiny", configs=configs, world="2cpu", **more))  # type: ignore[arg-type]
    finally:
        DistributedDataParallel.__init__ = original  # type: ignore[method-assign]
    return {"of_default": of_default, "groups": len(distributed.distributed_c10d._world.pg_map)}
