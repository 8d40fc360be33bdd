"""A plugin of pytest, next to fake ranks: each launch loads another version of one of the user's files."""

from itertools import count

from fixtures.launch.protocol import SourcesRequest
from tests import fake_ranks

_versions = count()


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[SourcesRequest.function] = lambda world, rank, arguments: {
        "/home/me/train.py": str(next(_versions)),
        "/home/me/model.py": "as it was",
    }
