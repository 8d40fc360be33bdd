"""The user's workloads in pytest's own process: values without code, which know where their functions are defined."""

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fixtures.launch import reaper
from fixtures.launch.faults import RankFault
from fixtures.session.launches import unfit
from fixtures.session.own_code import ends_what_it_starts, load_hooks, load_workloads, place_of_function

MINE = "tests.workloads_for_tests:steady"


def test_a_mistake_in_a_function_of_the_user_names_its_file_and_line_and_only_ranks_call_it() -> None:
    workload = load_workloads([MINE], ["fp32"])[MINE]
    message = "raised TypeError: workload 'steady': sample must return a tuple of tensors"
    fault = RankFault(rank=0, kind="exception", step=-1, phase="get batch", message=message)
    said = str(unfit(workload, fault))
    assert said.startswith("sample must return a tuple of tensors (tests/workloads_for_tests.py, line ")
    with pytest.raises(RuntimeError, match="the user's code runs in ranks only"):
        workload.sample()


def test_a_partial_function_has_the_place_of_its_function() -> None:
    assert Path(__file__).name in place_of_function(partial(test_a_partial_function_has_the_place_of_its_function))
    assert place_of_function(len) == ""


DAEMON = """
import os, pathlib, subprocess
command = ["sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!"]
pid = subprocess.run(command, env={{}}, stdout=subprocess.PIPE, start_new_session=True).stdout
pathlib.Path({file!r}).write_bytes(pid)
"""


@pytest.mark.parametrize(
    ("load", "ends", "says"),
    [
        (
            lambda name: load_workloads([name], ["fp32"]),
            "os._exit(0)",
            "its process exited with code 0 while importing",
        ),
        (lambda name: load_workloads([name], ["fp32"]), "os.abort()", "its process died of SIGABRT while importing"),
        (lambda name: load_hooks([name]), "hook = 7", "is a int, not a Hook"),
    ],
)
def test_an_import_that_ends_its_process_is_reported_and_what_it_started_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[[str], object], ends: str, says: str
) -> None:
    (tmp_path / "starts_a_daemon.py").write_text(f"{DAEMON.format(file=str(tmp_path / 'pid'))}{ends}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(pytest.UsageError, match=says):
        load("starts_a_daemon:hook")
    assert reaper.state_of(int((tmp_path / "pid").read_text())) in (None, "Z")


def test_a_process_that_an_import_in_this_process_starts_ends_with_it() -> None:
    with subprocess.Popen(["sleep", "600"]) as of_pytest:
        with ends_what_it_starts():
            child = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
        assert child.poll() is not None
        assert of_pytest.poll() is None
        of_pytest.kill()
