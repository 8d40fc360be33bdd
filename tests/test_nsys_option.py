"""``--nsys``: how ranks are started below nsys and what becomes of its reports.

Nsight Systems is not on every machine that runs these tests. What stands in for it here takes the options that it
takes, runs the rest of its command line as a child, and writes its report when that has ended, as it does.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fixtures.ranks.nsys import profile_options, report_of
from tests.command_line import QUICK, Outcome, pytest_perf

TEST = "perf/test_throughput.py::test_throughput[vit_tiny-2cpu-ddp]"
STAND_IN = """#!/bin/sh
options="$*"
while :; do
    case "$1" in
        --output=*) output=${1#--output=}; shift;;
        profile|--*) shift;;
        *) break;;
    esac
done
echo "profiling with $options"
"$@"
"""


def perf(folder: Path, *arguments: str, ending: str | None) -> Outcome:
    """A run with an nsys that leaves a file of this ending, or none."""
    nsys = folder / "bin" / "nsys"
    nsys.parent.mkdir()
    nsys.write_text(STAND_IN + (f'echo "$options" > "$output{ending}"\n' if ending else ""))
    nsys.chmod(0o755)
    path = f"{nsys.parent}{os.pathsep}{os.environ['PATH']}"
    json_file = f"--benchmark-json={folder / 'run.json'}"
    wanted = (TEST, *QUICK, "--explain=none", f"--nsys={folder / 'reports'}", json_file)
    return pytest_perf(folder / "baselines", *wanted, *arguments, variables={"PATH": path})


def extra_info(folder: Path) -> Any:
    (benchmark,) = json.loads((folder / "run.json").read_text())["benchmarks"]
    return benchmark["extra_info"]


def test_each_rank_leaves_a_report(tmp_path: Path) -> None:
    outcome = perf(tmp_path, ending=".nsys-rep")
    assert outcome.exit_code == 0, outcome.output
    names = [f"test_throughput-vit_tiny-2cpu-ddp-rank{rank}.nsys-rep" for rank in range(2)]
    assert sorted(file.name for file in (tmp_path / "reports").iterdir()) == names
    assert extra_info(tmp_path)["nsys_reports"] == names
    options = (tmp_path / "reports" / names[1]).read_text()
    assert "--sample=none" in options
    assert "multiprocessing" in options


@pytest.mark.parametrize(
    ("help_", "trace"),
    [
        ("Possible values are 'cuda', 'nvtx', 'mpi', 'nccl' or 'none'.", "--trace=cuda,nvtx,nccl"),
        ("cuda, nvtx, osrt, nccl, none", "--trace=cuda,nvtx,nccl"),
        ("Possible values are 'cuda', 'nvtx', 'mpi' or 'none'.", "--trace=cuda,nvtx"),
        ("  --nccl-something=", "--trace=cuda,nvtx"),
    ],
)
def test_nccl_is_traced_where_nsys_can(tmp_path: Path, help_: str, trace: str) -> None:
    nsys = tmp_path / "nsys"
    nsys.write_text(f'#!/bin/sh\n[ "$*" = "profile --help" ] && cat <<END\n{help_}\nEND\n')
    nsys.chmod(0o755)
    assert profile_options(str(nsys), on_gpu=True)[0] == trace
    assert profile_options(str(nsys), on_gpu=False)[0] == "--trace=nvtx"


def test_an_nsys_that_cannot_be_asked_is_not_told_to_trace_nccl(tmp_path: Path) -> None:
    assert profile_options(str(tmp_path / "gone"), on_gpu=True)[0] == "--trace=cuda,nvtx"


def test_a_report_that_was_not_imported_is_kept_as_it_is(tmp_path: Path) -> None:
    for name in ("report-7.qdstrm", "report-7.nsys-rep", "report-8.qdstrm"):
        (tmp_path / name).touch()
    assert [report_of(tmp_path, pid) for pid in (7, 8, 9)] == [
        tmp_path / "report-7.nsys-rep",
        tmp_path / "report-8.qdstrm",
        None,
    ]


def test_what_was_measured_stands_where_nsys_leaves_nothing(tmp_path: Path) -> None:
    outcome = perf(tmp_path, ending=None)
    assert outcome.exit_code == 0, outcome.output
    assert "not recorded by nsys: test_throughput[vit_tiny-2cpu-ddp]: nsys left no report of rank 0" in outcome.output
    assert "profiling with profile --trace=nvtx" in outcome.output
    assert extra_info(tmp_path)["steps_per_s"] > 0


def test_a_machine_without_nsys_says_so_at_once(tmp_path: Path) -> None:
    outcome = pytest_perf(tmp_path, TEST, f"--nsys={tmp_path / 'reports'}", variables={"PATH": str(tmp_path)})
    assert outcome.exit_code == 4
    assert "--nsys: there is no nsys on PATH: install Nsight Systems" in outcome.errors
    assert not (tmp_path / "reports").exists()
