"""A plugin of pytest, beside fake ranks: imports the plugins of conftest.py anew, in the order of the seed in SEED.

Without a seed it is the order of conftest.py. What came of the run goes into the file in SEEN, as JSON.
"""

import json
import os
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SEED, SEEN = "DDP_PERF_TESTS_SEED", "DDP_PERF_TESTS_SEEN"

# Any: JSON.
_seen: dict[str, Any] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before conftest.py is imported, forget what the warm process imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("conftest", "fixtures", "perf", "tests") or name.startswith("test_"):
            del sys.modules[name]


def pytest_plugin_registered(plugin: object) -> None:
    """Just before pytest imports what the list names."""
    if isinstance(plugin, ModuleType) and plugin.__name__ == "conftest":
        plugins = list(plugin.pytest_plugins)
        if seed := os.environ.get(SEED):
            random.Random(int(seed)).shuffle(plugins)
        plugin.pytest_plugins = tuple(plugins)  # type: ignore[attr-defined]
        _seen["plugins"] = plugins


def pytest_sessionstart() -> None:
    from tests import fake_ranks

    fake_ranks.pytest_configure()
    setattr(fake_ranks, "_began_ns", 0)  # noqa: B010  # each run takes the same time, to the last bit


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _seen["collected"] = [item.nodeid for item in items]


def pytest_sessionfinish(session: pytest.Session) -> None:
    from fixtures.session.run_state import RUN

    verdicts = session.config.stash[RUN].verdicts
    _seen["verdicts"] = {test: (verdict.word, verdict.reason) for test, verdict in verdicts.items()}
    Path(os.environ[SEEN]).write_text(json.dumps(_seen))
