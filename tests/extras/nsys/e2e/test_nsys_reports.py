"""``--nsys``: the start of ranks below nsys, and its reports.

Nsight Systems is not on every machine that runs these tests. Its replacement here takes the same options and runs the
rest of its command line as a child that leads a process group. It writes its report when the child has ended, as nsys
does.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.extras.nsys.plugin import profile_command, report_of
from tests.command_line import QUICK, Outcome, pytest_perf
from tests.saved_records import Record, infos, read

SINGLE, ONE_RANK, TWO_RANKS = (f"test_scaling[steady-{cell}]" for cell in ("1cpu-single", "1cpu-ddp", "2cpu-ddp"))
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


# The first rank of the first test does not start, and those of the second leave no report.
TURNS = f"""case "$*" in *multiprocessing*)
    turn=1
    while ! mkdir "{{folder}}/$turn" 2>/dev/null; do turn=$((turn + 1)); done
    if [ $turn -le 2 ]; then echo no room; exit 3; fi
    leaves=$([ $turn -gt 4 ] && echo report || true)
esac
{RUN}if [ "$leaves" ]; then echo "$options" > "$output.nsys-rep"; fi
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run of three tests, and its folder. Each has two new ranks below nsys."""
    folder = tmp_path_factory.mktemp("recorded")
    found, turns = folder / "bin", folder / "turns"
    found.mkdir()
    turns.mkdir()
    stand_in(found, TURNS.replace("{folder}", str(turns)))
    steady = ("-k", "not bucket", "--workload=tests.workloads_for_tests:steady")
    wanted = ("perf/test_scaling.py", *steady, *QUICK, "--explain=none")
    outputs = (f"--nsys={folder / 'reports'}", f"--benchmark-json={folder / 'run.json'}")
    path = f"{found}{os.pathsep}{os.environ['PATH']}"
    return pytest_perf(folder / "baselines", *wanted, *outputs, variables={"PATH": path}), folder


def extra_info(folder: Path, test: str) -> Record:
    return infos(read(folder / "run.json"))[test]


def test_each_rank_leaves_a_report(recorded: tuple[Outcome, Path]) -> None:
    outcome, folder = recorded
    assert outcome.exit_code == 0, outcome.output
    names = [f"test_scaling-steady-2cpu-ddp-rank{rank}.nsys-rep" for rank in range(2)]
    assert sorted(file.name for file in (folder / "reports").iterdir()) == names
    assert extra_info(folder, TWO_RANKS)["nsys_reports"] == names
    options = (folder / "reports" / names[1]).read_text()
    assert "--sample=none" in options
    assert "multiprocessing" in options


def test_what_nsys_says_is_reported_where_ranks_do_not_start(recorded: tuple[Outcome, Path]) -> None:
    _, found, said = recorded[0].unwrapped.partition(f"not recorded by nsys: {SINGLE}: ")
    assert found, recorded[0].output
    said = said.partition("not recorded by nsys: ")[0]
    assert re.match("starting the ranks: rank [01] exited with code 3", said)
    assert "no room" in said


def test_what_was_measured_stands_where_nsys_leaves_nothing(recorded: tuple[Outcome, Path]) -> None:
    outcome, folder = recorded
    assert f"not recorded by nsys: {ONE_RANK}: nsys left no report of rank 0" in outcome.unwrapped, outcome.output
    assert "profiling with profile --trace=nvtx" in outcome.output
    for test in (SINGLE, ONE_RANK):
        assert extra_info(folder, test)["steps_per_s"] > 0
        assert "nsys_reports" not in extra_info(folder, test)


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


def test_a_report_that_was_not_imported_is_kept_as_it_is(tmp_path: Path) -> None:
    for name in ("report-7.qdstrm", "report-7.nsys-rep", "report-8.qdstrm"):
        (tmp_path / name).touch()
    assert [report_of(tmp_path, rank) for rank in (7, 8, 9)] == [
        tmp_path / "report-7.nsys-rep",
        tmp_path / "report-8.qdstrm",
        None,
    ]
