"""Slowdowns between releases of torch that users met, found again by ``pytest perf --against``. None is planted.

    python -m studies.regressions NAME     three runs of the slower release against the other one, and one against
                                           itself, each with its verdict
    python -m studies.regressions          the names

Environments are built as ``--against torch==...`` builds them, and kept. No GPU is needed.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fixtures.extras.upgrades.built_environment import built

RUNS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Regression:
    """slower, other: releases of torch. tests: the words of ``-k``. script: one of this folder, with its arguments;
    else the suite's own workload is trained."""

    slower: str
    other: str
    tests: str = "as_written"
    script: str | None = None


REGRESSIONS = {
    # pytorch#181761: AdamW keeps a DTensorSpec a parameter and step.
    "fsdp2_keeps_objects": Regression(slower="2.11.0", other="2.8.0", tests="test_sharding and fsdp2]"),
    # DTensor's cache of shardings has the weight of lerp in its key. So have pow, clamp and where.
    "sharded_moving_average": Regression(slower="2.12.1", other="2.11.0", script="moving_average.py"),
    # In bfloat16 the flash kernel takes the place of products of matrices, also where heads share keys.
    "grouped_attention": Regression(slower="2.11.0", other="2.8.0", script="grouped_attention.py"),
}


def verdict(one: Regression, python: Path, against: Path) -> str:
    """Why the test failed, else its verdict. python, against: the interpreters of both sides."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        options = ["-k", one.tests, "--against", str(against), "--minutes=1", "--benchmark-json", str(file)]
        script = [] if one.script is None else ["--script", f"studies/{one.script}"]
        command = [str(python), "-m", "pytest", "perf", *options, *script]
        subprocess.run(command, cwd=Path(__file__).parents[1], check=False, stdout=subprocess.DEVNULL)
        run = json.loads(file.read_text())
    verdicts = [test["extra_info"]["verdict"] for test in run["benchmarks"]]
    return "; ".join(run["failed"].values() or (f"{one['word']}: {one['reason']}" for one in verdicts))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*REGRESSIONS, sep="\n")
        sys.exit()
    one = REGRESSIONS[sys.argv[1]]
    slower, other = (built([f"torch=={version}"], print) for version in (one.slower, one.other))
    for release, against in (*[(one.other, other)] * RUNS, (one.slower, slower)):
        print(f"torch {one.slower} against {release}: {verdict(one, slower, against)}", flush=True)
