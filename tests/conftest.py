"""Layers of tests by folder, their processes, and live ranks that several test files use."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.plain_text import TERMINAL, WIDTH
from tests import warm_ranks

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

_HERE = Path(__file__).parent

# Processes inherit an ignored signal. A shell starts background jobs with SIGINT ignored, and nohup ignores SIGHUP: the
# runs that tests interrupt would ignore them too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # a handler is not inherited: this process still lives on


# Folders of tests that start processes or simulate many runs; the others are `pytest tests -m "not slow"`. Extras and
# tests/script have them in their own folders; a folder in tests/unit is a room.
SLOW = {"e2e", "mutants", "ranks", "runs", "studies"}
# Tests of extras run where the command names them or a folder in there, not as a part of `pytest tests`.
_EXTRAS = _HERE / "extras"

# Of a whole run: one more than two cores, because many tests wait.
_PROCESSES = 3
# What changes which tests run, or needs them in one process.
_ONE_PROCESS = ("usepdb", "collectonly", "keyword", "lf", "failedfirst", "stepwise")


def pytest_configure(config: pytest.Config) -> None:
    """Run all of ``pytest tests`` in several processes (``tests/sharing_out.py``), where pytest-xdist is installed.

    All of ``pytest tests/extras`` too.
    """
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]  # a run that a test starts is no worker
    option = config.option
    whole = not {_HERE, _EXTRAS}.isdisjoint(_named(config))
    selected = (
        any(getattr(option, name, None) for name in _ONE_PROCESS)
        or option.markexpr not in ("", "not slow")
        or getattr(option, "numprocesses", 0) is not None
    )
    if whole and not selected and not hasattr(config, "workerinput"):
        option.dist, option.tx = "loadscope", ["popen"] * _PROCESSES
        option.loadscopereorder = False  # in the order of collection, which begins with the longest files
        option.benchmark_disable = True  # pytest-benchmark warns of xdist otherwise
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads of processes that share the cores wait for each other
        warm_ranks.start()  # one for all of them
    if hasattr(config, "workerinput"):
        gc.disable()
        import torch

        torch.set_num_threads(1)
    warm_ranks.pytest_configure()


def _named(config: pytest.Config) -> list[Path]:
    """Files and folders of the command line."""
    return [Path(argument.partition("::")[0]).resolve() for argument in config.args]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the extras if the command names none of their tests."""
    if collection_path != _EXTRAS:
        return None
    return True if not any(path.is_relative_to(_EXTRAS) for path in _named(config)) else None


# Any: pytest-xdist's own logger, which has no public type.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling":
    from tests.sharing_out import Scheduling

    return Scheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests by their folder, and run them first, whole runs before all others. Leave out nightly ones."""
    if "nightly" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]
    for item in items:
        parts = item.path.relative_to(_HERE).parts if item.path.is_relative_to(_HERE) else ()
        if next((part for part in parts if part in SLOW | {"unit"}), "unit") in SLOW:
            item.add_marker("slow")
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, "e2e" not in item.path.parts))


def pytest_collection_finish() -> None:
    """Later garbage collections skip what was imported and collected, which took a tenth of the time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def wide_terminal() -> None:
    """Lines of the suite are of its own width, not of the terminal that runs these tests."""
    TERMINAL.width = WIDTH


@pytest.fixture
def spawned_ranks() -> Iterator[None]:
    """Ranks are started as the suite does it, not by warm_ranks.py: for tests of just that."""
    with warm_ranks.spawned():
        yield


@pytest.fixture(scope="session")
def three_ranks() -> Iterator[RankSets]:
    """One launch of three ranks on the CPU, for the tests of all files."""
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=60)
    yield sets
    sets.close()


@pytest.fixture(scope="session")
def two_ranks(three_ranks: RankSets) -> RankSets:
    """The same, for tests in worlds of one and two; the third rank is idle meanwhile."""
    return three_ranks
