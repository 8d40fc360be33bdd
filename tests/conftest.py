"""Layers of tests by folder, and live ranks that several test files use."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.launch.rank_sets import RankSets

# Processes inherit an ignored signal. A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP: the
# runs that tests interrupt would ignore them too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # a handler is not inherited: this process still lives on


# Folders of tests that start processes or simulate many runs; the others are `pytest tests -m "not slow"`.
SLOW = ("e2e", "mutants", "ranks", "studies")


# Whole runs of `pytest tests` use two processes: one runs the tests that start processes, one after the other, because
# they share the machine's lock and its cores; the other runs the rest.
_HERE = Path(__file__).parent


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Distribute the tests where all of them run."""
    option = config.option
    chosen = ("usepdb", "collectonly", "markexpr", "keyword", "lf", "failedfirst")
    all_of_them = _HERE in [Path(argument).resolve() for argument in config.args]
    alone = hasattr(config, "workerinput")  # one of the two processes
    if all_of_them and not alone and hasattr(option, "tx") and not any(getattr(option, name, None) for name in chosen):
        option.dist, option.tx = "loadgroup", ["popen"] * 2


def pytest_configure(config: pytest.Config) -> None:
    """Runs of pytest that tests start are on their own: pytest-benchmark measures nothing in a worker of xdist."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in this hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its folder; slow tests run in one process."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.path.relative_to(_HERE).parts[0] in SLOW:
            item.add_marker("slow")
            item.add_marker(pytest.mark.xdist_group("processes"))


@pytest.fixture(scope="session")
def three_ranks() -> Iterator[RankSets]:
    """One launch of three ranks on the CPU, for the tests of all files."""
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=60, on_message=lambda text: None)
    yield sets
    sets.close()


@pytest.fixture(scope="session")
def two_ranks(three_ranks: RankSets) -> RankSets:
    """The same, for tests in worlds of one and two; the third rank is idle meanwhile."""
    return three_ranks
