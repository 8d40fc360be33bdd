"""What ranks do in the tests of NCCL's log: say what NCCL would be told to log, and write where it would."""

import os
from pathlib import Path

from fixtures.ranks.rank import Here


def subsystems(here: Here) -> dict[str, str]:
    """What NCCL would log of, and into which file."""
    return {name: os.environ[name] for name in ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")}


def write(here: Here, *, text: str) -> int:
    """Append to the file that NCCL_DEBUG_FILE names, as NCCL does; the process that did."""
    with Path(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid()))).open("a") as log:
        log.write(text)
    return os.getpid()
