"""Code inside a rank for test_upstream_reports.py: the script of a report."""

from importlib import import_module

from fixtures.ranks.context import RankContext


def shows(ctx: RankContext, *, report: str) -> bool:
    """Return what the function ``bug`` of the report's script returns over the group that this rank is in."""
    return bool(import_module(f"studies.torch_bugs.{report}").bug(ctx.rank))
