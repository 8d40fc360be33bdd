"""Code inside a rank: the environment of its process."""

import os
from pathlib import Path

from fixtures.ranks.context import RankContext


def at_start(ctx: RankContext) -> str:
    """Return the variables that the process was started with, each with a null character behind it."""
    return Path("/proc/self/environ").read_text()


def variable(ctx: RankContext, *, name: str) -> str | None:
    return os.environ.get(name)
