"""A plugin of pytest: the tasks at the end of a run that ``TASK`` names, one a line, raise.

The names of all tasks are added to the file ``TASKS``, and in front of each a space for each task that it is a part of.
"""

import os
from pathlib import Path
from typing import Any

from fixtures.session.end_of_run import Tasks

TASK, TASKS = "DDP_PERF_TEST_TASK", "DDP_PERF_TEST_TASKS"

_attempt: Any = Tasks.attempt
_depth = 0


# Any: tasks of every kind.
def _attempt_or_raise(tasks: Tasks, task: str, instead: Any, action: Any, *arguments: Any, **named: Any) -> Any:
    global _depth
    with Path(os.environ[TASKS]).open("a") as file:
        file.write(f"{' ' * _depth}{task}\n")
    failing = task in os.environ.get(TASK, "").splitlines()
    _depth += 1
    try:
        return _attempt(tasks, task, instead, _raise if failing else action, *arguments, **named)
    finally:
        _depth -= 1


def _raise(*_: object, **__: object) -> None:
    raise LookupError("planted\nhere")


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(Tasks, "attempt", _attempt_or_raise)  # noqa: B010
