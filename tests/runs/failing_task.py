"""A plugin of pytest: the task at the end of a run that ``TASK`` names raises.

The names of all tasks are added to the file ``TASKS``.
"""

import os
from pathlib import Path
from typing import Any

from fixtures.session.end_of_run import Tasks

TASK, TASKS = "DDP_PERF_TEST_TASK", "DDP_PERF_TEST_TASKS"

_attempt: Any = Tasks.attempt


# Any: tasks of every kind.
def _attempt_or_raise(tasks: Tasks, task: str, instead: Any, action: Any, *arguments: Any, **named: Any) -> Any:
    with Path(os.environ[TASKS]).open("a") as file:
        file.write(f"{task}\n")
    failing = task == os.environ.get(TASK)
    return _attempt(tasks, task, instead, _raise if failing else action, *arguments, **named)


def _raise(*_: object, **__: object) -> None:
    raise LookupError("planted\nhere")


def pytest_configure() -> None:
    """For the rest of this process."""
    setattr(Tasks, "attempt", _attempt_or_raise)  # noqa: B010
