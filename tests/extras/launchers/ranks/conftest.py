"""Ranks that run scripts."""

from tests.script.conftest import run, sets, written

__all__ = ["run", "sets", "written"]
