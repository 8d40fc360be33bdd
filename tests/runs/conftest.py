"""A storage with a record, for the modules of runs that begin from one."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with one record, which the module's own ``perf`` has saved."""
    storage = tmp_path_factory.mktemp("baselines")
    request.module.perf(storage, "--benchmark-save=before").exits(0)
    return storage
