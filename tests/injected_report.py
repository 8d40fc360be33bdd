"""How often an injected cause is named: the injected runs, repeated, and a table of them in Markdown.

python -m tests.injected_report N       those for GPUs where there are two or more, else those for the CPU
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.injected_causes import GPUS, ON_CPU, ON_GPUS, Injection, Injections, begun


def repeat(injections: Injections, times: int) -> dict[str, list[str | None]]:
    """Cause -> what the line of its test said each time, None where the test was not slower.

    Each time with a baseline of its own; one that cannot be made ends it, with what pytest said. Each line goes to
    stderr as soon as it is there.
    """
    said: dict[str, list[str | None]] = {name: [] for name in injections.causes}
    for number in range(1, times + 1):
        with tempfile.TemporaryDirectory() as storage:
            runs = begun(Path(storage), injections)
            for name in injections.causes:
                lines = runs.lines_of(name)
                said[name].append(lines[1] if lines else None)
                print(f"[{number}/{times}] {name}: {lines[1] if lines else 'not slower'}", file=sys.stderr, flush=True)
    return said


def table(causes: Mapping[str, Injection], said: Mapping[str, Sequence[str | None]]) -> Iterator[str]:
    """The lines of the table; a line in which the cause is not where it belongs is not counted."""
    yield "| injected | named | said the first time |"
    yield "|---|---|---|"
    for name, cause in causes.items():
        named = sum(line is not None and cause.is_named_in(line) for line in said[name])
        yield f"| {name} | {named} of {len(said[name])} | {said[name][0] or 'nothing: not slower'} |"


if __name__ == "__main__":
    here, machine = (ON_GPUS, f"{GPUS} GPUs, NCCL") if GPUS >= 2 else (ON_CPU, f"{os.cpu_count()} CPU cores, gloo")
    print(f"{machine}, torch {version('torch')}\n")
    print("\n".join(table(here.causes, repeat(here, int(sys.argv[1])))))
