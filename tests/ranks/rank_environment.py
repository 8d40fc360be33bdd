"""Code inside a rank for test_other_side.py: the environment of its process."""

from pathlib import Path

from fixtures.ranks.context import RankContext


def at_start(ctx: RankContext) -> str:
    """Return the variables that the process was started with, each with a null character behind it."""
    return Path("/proc/self/environ").read_text()
