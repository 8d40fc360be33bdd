"""``--nsys``: how ranks are started below nsys and what becomes of its reports.

Nsight Systems is not on every machine that runs these tests. What stands in for it here takes the options that it
takes, runs the rest of its command line as a child that leads a process group, and writes its report when that has
ended, as it does.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.launch.nsys_command import profile_command, report_of
from tests.command_line import QUICK, Outcome, pytest_perf

TWO_RANKS = "perf/test_scaling.py::test_scaling[steady-2cpu-ddp]"
SINGLE = "perf/test_scaling.py::test_scaling[steady-1cpu-single]"
LEAD = "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])"
RUN = f"""options="$*"
while :; do
    case "$1" in
        --output=*) output=${{1#--output=}}; shift;;
        profile|--*) shift;;
        *) break;;
    esac
done
echo "profiling with $options"
"{sys.executable}" -c "{LEAD}" "$@"
"""


def stand_in(folder: Path, script: str) -> None:
    """``folder/nsys``"""
    nsys = folder / "nsys"
    nsys.write_text(f"#!/bin/sh\n{script}")
    nsys.chmod(0o755)


def perf(folder: Path, test: str, *, ending: str | None, first: str = "") -> Outcome:
    """A run with an nsys that leaves a file of this ending, or none; ``first``: what its script begins with."""
    found = folder / "bin"
    found.mkdir()
    stand_in(found, first + RUN + (f'echo "$options" > "$output{ending}"\n' if ending else ""))
    path = f"{found}{os.pathsep}{os.environ['PATH']}"
    json_file = f"--benchmark-json={folder / 'run.json'}"
    steady = "--workload=tests.workloads_for_tests:steady"
    wanted = (test, steady, *QUICK, "--explain=none", f"--nsys={folder / 'reports'}", json_file)
    return pytest_perf(folder / "baselines", *wanted, variables={"PATH": path})


def extra_info(folder: Path) -> Any:
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return benchmark["extra_info"]


def test_each_rank_leaves_a_report(tmp_path: Path) -> None:
    outcome = perf(tmp_path, TWO_RANKS, ending=".nsys-rep")
    assert outcome.exit_code == 0, outcome.output
    names = [f"test_scaling-steady-2cpu-ddp-rank{rank}.nsys-rep" for rank in range(2)]
    assert sorted(file.name for file in (tmp_path / "reports").iterdir()) == names
    assert extra_info(tmp_path)["nsys_reports"] == names
    options = (tmp_path / "reports" / names[1]).read_text()
    assert "--sample=none" in options
    assert "multiprocessing" in options


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """What nsys can do is found out once a process."""
    profile_command.cache_clear()
    yield
    profile_command.cache_clear()


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize(("refused", "trace"), [("osrt", "cuda,nvtx,nccl"), ("nccl", "cuda,nvtx")])
def test_nccl_is_traced_where_nsys_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, trace: str
) -> None:
    stand_in(tmp_path, f'case "$2" in *{refused}*) echo "Illegal --trace argument"; exit 1;; esac\n{RUN}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    command = profile_command(on_gpu=True)
    assert command[:3] == (str(tmp_path / "nsys"), "profile", f"--trace={trace}")
    assert "--capture-range=cudaProfilerApi" in command
    assert profile_command(on_gpu=False)[2] == "--trace=nvtx"


def test_what_nsys_says_is_told_where_ranks_do_not_start(tmp_path: Path) -> None:
    outcome = perf(
        tmp_path, SINGLE, ending=".nsys-rep", first='case "$*" in *multiprocessing*) echo no room; exit 3;; esac\n'
    )
    assert outcome.exit_code == 0, outcome.output
    assert "rank 0 exited with code 3" in outcome.unwrapped, outcome.output
    assert "no room" in outcome.output


def test_a_report_that_was_not_imported_is_kept_as_it_is(tmp_path: Path) -> None:
    for name in ("report-7.qdstrm", "report-7.nsys-rep", "report-8.qdstrm"):
        (tmp_path / name).touch()
    assert [report_of(tmp_path, pid) for pid in (7, 8, 9)] == [
        tmp_path / "report-7.nsys-rep",
        tmp_path / "report-8.qdstrm",
        None,
    ]


def test_what_was_measured_stands_where_nsys_leaves_nothing(tmp_path: Path) -> None:
    outcome = perf(tmp_path, SINGLE, ending=None)
    assert outcome.exit_code == 0, outcome.output
    assert "not recorded by nsys: test_scaling[steady-1cpu-single]: nsys left no report of rank 0" in outcome.output
    assert "profiling with profile --trace=nvtx" in outcome.output
    assert extra_info(tmp_path)["steps_per_s"] > 0
