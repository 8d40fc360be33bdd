"""Code inside a rank for test_nccl_log.py: NCCL's log settings, and writing to its log file."""

import os
from pathlib import Path

from fixtures.ranks.context import RankContext


def subsystems(ctx: RankContext) -> dict[str, str]:
    """Return the subsystems that NCCL would log, and its log file."""
    return {name: os.environ[name] for name in ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")}


def write(ctx: RankContext, *, text: str) -> int:
    """Append to the file in NCCL_DEBUG_FILE like NCCL. Returns the process id."""
    with Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid()))).open("a") as log:
        log.write(text)
    return os.getpid()
