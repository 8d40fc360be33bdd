"""A plugin of pytest, next to fake ranks: every check of a hook passes, except the check of its traffic.

With ``DDP_PERF_TESTS_WRONG`` in the environment, every check finds it wrong.
"""

import os

from tests import fake_ranks

# As live ranks find it: tests/ranks/test_own_hooks.py.
VIOLATION = "collectives of 4.194304 MB a step, 2.097152 MB are promised"


def pytest_configure() -> None:
    """For the rest of this process."""
    everywhere = "DDP_PERF_TESTS_WRONG" in os.environ
    fake_ranks.answer_checks(lambda check: lambda *_: [VIOLATION] if everywhere or check == "wire:wire" else [])
