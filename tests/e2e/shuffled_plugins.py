"""One measured test, judged again and again in one process with the plugins of conftest.py in another order each time.

``python -m tests.e2e.shuffled_plugins STORAGE RUNS`` measures it once, saves that as its baseline in STORAGE, and then
RUNS times replays what the ranks answered. The first replay keeps the order of conftest.py. Prints one JSON object a
replay. A process of its own: the plugins are imported anew for each run.
"""

import contextlib
import io
import json
import random
import sys
from types import ModuleType
from typing import Any

import pytest

TEST = "perf/test_scaling.py::test_scaling[steady-1cpu-ddp]"
_ARGUMENTS = (
    *("perf", "-k", "test_scaling and 1cpu-ddp", "--workload=tests.workloads_for_tests:steady", "--instance=rack-7"),
    *("--launches=1", "--steps=3", "--warmup=4", "--recheck=0", "--explain=none"),
    *("-p", "no:cacheprovider"),
)

# What was asked of the ranks -> one answer a rank. Any: JSON.
Answers = dict[str, list[Any]]


class Shuffled:
    """Puts conftest.py's list into the order of a seed, None for its own, and has the ranks answer what they answered
    before; ``seen`` is what came of it."""

    def __init__(self, seed: int | None, answers: Answers) -> None:
        self._seed = seed
        self._answers = answers
        self.seen: dict[str, Any] = {"seed": seed}

    def pytest_plugin_registered(self, plugin: object) -> None:
        """Just before pytest imports what the list names."""
        if isinstance(plugin, ModuleType) and plugin.__name__ == "conftest":
            plugins = list(plugin.pytest_plugins)
            if self._seed is not None:
                random.Random(self._seed).shuffle(plugins)
            plugin.pytest_plugins = tuple(plugins)  # type: ignore[attr-defined]
            self.seen["plugins"] = plugins

    def pytest_sessionstart(self) -> None:
        from fixtures.launch.rank_set import RankSet
        from fixtures.launch.rank_sets import RankSets

        ask, answers = RankSet.run, self._answers

        def run(ranks: RankSet, world: Any, function: str, arguments: dict[str, Any], *, doing: str) -> list[Any]:
            asked = json.dumps([world.name, function, arguments])
            if asked not in answers:
                answers[asked] = ask(ranks, world, function, arguments, doing=doing)  # which starts them
            return answers[asked]

        RankSet.run = run  # type: ignore[method-assign,assignment]
        RankSets._start = lambda self, sets: None  # type: ignore[method-assign]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.seen["collected"] = [item.nodeid for item in items]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        from fixtures.session.run_state import RUN

        self.seen["verdicts"] = {
            test: (verdict.word, verdict.reason) for test, verdict in session.config.stash[RUN].verdicts.items()
        }


def run(storage: str, seed: int | None, answers: Answers, *more: str) -> dict[str, Any]:
    """One ``pytest perf``; what came of it."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("conftest", "fixtures", "perf", "tests"):
            del sys.modules[name]
    shuffled, written = Shuffled(seed, answers), io.StringIO()
    with contextlib.redirect_stdout(written):
        code = pytest.main([*_ARGUMENTS, "-s", f"--benchmark-storage={storage}", *more], plugins=[shuffled])
    lines = written.getvalue().splitlines()
    progress = [line.split() for line in lines if line.startswith("[")]
    sections = [line.strip("= ") for line in lines if line.startswith("===")][:-1]  # the last has the time it took
    return {**shuffled.seen, "exit_code": int(code), "progress": progress, "sections": sections, "written": lines}


def main() -> None:
    storage, runs = sys.argv[1], int(sys.argv[2])
    answers: Answers = {}
    first = run(storage, None, answers, "--benchmark-save=first")
    if first["exit_code"]:
        sys.exit("\n".join(first["written"]))
    for seed in (None, *range(runs - 1)):
        print(json.dumps(run(storage, seed, answers)), flush=True)


if __name__ == "__main__":
    main()
