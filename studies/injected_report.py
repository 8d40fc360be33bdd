"""Share of injected causes of a slowdown that the suite names, as a table in Markdown.

python -m studies.injected_report N       N runs of each cause; with two GPUs or more those for GPUs, else for the CPU
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.e2e.injected_causes import GPUS, ON_CPU, ON_GPUS, Injection, Injections, begun


def repeat(injections: Injections, times: int) -> dict[str, list[str | None]]:
    """Run each cause several times, each time with a new baseline. Prints each result to stderr.

    Returns cause -> reason line of its test in each run; None if the test was not slower. Ends with pytest's output if
    a baseline cannot be made.
    """
    reasons: dict[str, list[str | None]] = {name: [] for name in injections.causes}
    for number in range(1, times + 1):
        with tempfile.TemporaryDirectory() as storage:
            runs = begun(Path(storage), injections)
            for name in injections.causes:
                lines = runs.lines_of(name)
                reasons[name].append(lines[1] if lines else None)
                print(f"[{number}/{times}] {name}: {lines[1] if lines else 'not slower'}", file=sys.stderr, flush=True)
    return reasons


def table(causes: Mapping[str, Injection], reasons: Mapping[str, Sequence[str | None]]) -> Iterator[str]:
    """Lines of the table. A cause counts as named only if it stands in its place in the reason."""
    yield "| injected | named | reason of the first run |"
    yield "|---|---|---|"
    for name, cause in causes.items():
        named = sum(line is not None and cause.is_named_in(line) for line in reasons[name])
        yield f"| {name} | {named} of {len(reasons[name])} | {reasons[name][0] or 'none: not slower'} |"


if __name__ == "__main__":
    injections, machine = (ON_GPUS, f"{GPUS} GPUs, NCCL") if GPUS > 1 else (ON_CPU, f"{os.cpu_count()} CPU cores, gloo")
    print(f"{machine}, torch {version('torch')}\n")
    print("\n".join(table(injections.causes, repeat(injections, int(sys.argv[1])))))
