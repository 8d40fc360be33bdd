"""A plugin of pytest: the teardown of the test named in TEST fails."""

import os
from collections.abc import Generator

import pytest

TEST = "DDP_PERF_TESTS_FAILING_TEARDOWN"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    if item.nodeid == os.environ[TEST]:
        raise RuntimeError("nothing can be torn down here")
