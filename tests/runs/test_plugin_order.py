"""The order of the plugins in conftest.py decides nothing."""

import importlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import conftest
from fixtures.report.progress import Progress
from fixtures.session.benchmark_storage import BenchmarkStorage
from tests.command_line import QUICK
from tests.forked import perf as pytest_perf
from tests.runs.shuffled_plugins import SEED, SEEN

TEST = "perf/test_scaling.py::test_scaling[steady-1cpu-ddp]"
ARGUMENTS = (
    *("perf", "-k", "test_scaling and 1cpu-ddp", "--workload=tests.workloads_for_tests:steady", "--instance=rack-7"),
    *(*QUICK, "--explain=none", "-p", "tests.runs.shuffled_plugins"),
)
SEEDS = 10
# What came of a run. Any: JSON.
Replay = dict[str, Any]
# Hooks that several plugins have on one level, and why their order does not matter.
INDEPENDENT = {
    "pytest_configure": "each makes values of its own; the settings, which others read, are made on the level before",
    "pytest_benchmark_update_json": "each adds keys of its own",
    "pytest_generate_tests": "no test has the parameters of two of them",
    "pytest_report_header": "each adds a line of its own",
    "pytest_runtest_makereport": "each notes something of its own about a report that it does not change",
    "pytest_runtest_protocol": "one raises a signal that was swallowed, the other prepares the line of a test",
    "pytest_sessionfinish": "one sets the exit code, the other ends the lines of progress",
    "pytest_terminal_summary": "each writes a section of its own",
}


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> list[Replay]:
    """What came of judging the same answers again: first in the order of conftest.py, then in that of each seed."""
    folder = tmp_path_factory.mktemp("replays")

    def replay(seed: int | None, *more: str) -> Replay:
        variables = {SEEN: str(folder / "seen.json"), **({} if seed is None else {SEED: str(seed)})}
        outcome = pytest_perf(folder / "baselines", *ARGUMENTS, *more, variables=variables)
        lines = outcome.output.splitlines()
        return {
            **json.loads((folder / "seen.json").read_text()),
            "exit_code": outcome.exit_code,
            "progress": [line.split() for line in lines if line.startswith("[")],
            # The last has the time that it took.
            "sections": [line.strip("= ") for line in lines if line.startswith("===")][:-1],
        }

    assert replay(None, "--benchmark-save=first")["exit_code"] == 0
    return [replay(seed) for seed in (None, *range(1, 1 + SEEDS))]


def test_the_orders_differ(replays: list[Replay]) -> None:
    assert {tuple(sorted(map(str, one["plugins"]))) for one in replays} == {tuple(sorted(conftest.pytest_plugins))}
    assert len({json.dumps(one["plugins"]) for one in replays}) == 1 + SEEDS


def test_in_any_order_a_test_is_judged_by_its_baseline(replays: list[Replay]) -> None:
    outcomes: list[Replay] = [
        {name: one.get(name) for name in ("exit_code", "collected", "verdicts", "progress", "sections")}
        for one in replays
    ]
    first, *shuffled = outcomes
    word, reason = first["verdicts"][TEST]
    assert word in ("ok", "unclear"), reason
    assert "in 1 record" in reason
    assert shuffled == [first] * SEEDS


def test_a_hook_of_several_plugins_is_on_several_levels_or_its_order_does_not_matter() -> None:
    plugins: list[Any] = [*map(importlib.import_module, conftest.pytest_plugins), BenchmarkStorage, Progress]
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for plugin in plugins:
        for name, function in vars(plugin).items():
            if name.startswith("pytest_") and callable(function):
                options = getattr(function, "pytest_impl", {})
                level = (option for option in ("wrapper", "tryfirst", "trylast") if options.get(option))
                found[(name, *level)].append(plugin.__name__)
    shared = {hook[0] for hook, of in found.items() if len(of) > 1}
    assert shared == INDEPENDENT.keys()


def test_every_plugin_in_conftest_is_one() -> None:
    for name in conftest.pytest_plugins:
        text = Path(str(importlib.import_module(name).__file__)).read_text()
        assert "def pytest_" in text or "@pytest.fixture" in text, f"{name} has neither hooks nor fixtures"
