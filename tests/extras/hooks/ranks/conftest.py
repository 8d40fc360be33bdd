"""The set of ranks that the tests of live ranks share."""

from tests.ranks.conftest import ranks

__all__ = ["ranks"]
