"""A run's folder: the next run removes the folders of killed runs, and names a folder that cannot be used."""

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.launch import reaper, session
from fixtures.launch.faults import RankFailure
from fixtures.launch.session import BadTemporaryFolder, Session

ROOT = Path(__file__).parents[3]
# A run that is killed together with its reaper, when a process of it runs.
KILLED = """
import os, signal, subprocess, sys, time
from fixtures.launch import reaper
from fixtures.launch.session import Session
session = Session()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={reaper.MARKER: session.name},
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(session.name, flush=True)
session._reaper.kill()
session._reaper.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_run_left_that_was_killed_with_its_reaper_is_removed_by_the_next(folder: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, env=environment, capture_output=True, check=False)
    name = run.stdout.decode().strip()
    assert len(list(folder.iterdir())) == len(reaper.processes_of(name)) == 1
    with closing(Session()) as present:
        assert list(folder.iterdir()) == [present.folder]
    assert list(folder.iterdir()) == []
    assert reaper.processes_of(name) == []


def test_a_living_run_and_what_is_no_run_keep_their_folders_also_without_a_reaper(folder: Path) -> None:
    (folder / "ddp-perf-notes").mkdir()
    (folder / "ddp-perf-notes/mine.txt").touch()
    with closing(Session()) as first, closing(Session()) as second:
        assert {first.folder, second.folder, folder / "ddp-perf-notes"} == set(folder.iterdir())
    assert list(folder.iterdir()) == [folder / "ddp-perf-notes"]
    with closing(Session()) as present:
        present._reaper.kill()
        present._reaper.wait()
    assert list(folder.iterdir()) == [folder / "ddp-perf-notes"]


def test_a_folder_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(session, "_NEEDED_BYTES", 10**18)
    with pytest.raises(BadTemporaryFolder, match=r"cannot be used: [\d.]+ MB are free, a run needs 1000000000000 MB; "):
        Session()
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/\udcff")
    with pytest.raises(BadTemporaryFolder, match=r"^the temporary folder /tmp/\\udcff cannot be used: its name is not"):
        Session()


def test_a_folder_that_is_removed_meanwhile_is_the_reason(folder: Path) -> None:
    with closing(Session()) as present:
        assert present.problem() is None
        present.folder.rename(folder / "elsewhere")
        reason = present.problem()
    assert reason == f"{present.folder} was removed while the run used it: keep TMPDIR as it is until the run ends"
    assert str(RankFailure([], "starting the ranks", reason)) == f"starting the ranks: {reason}"


MAPS = """
import mmap, sys, time
file = open(sys.argv[1], "rb+")
page = mmap.mmap(file.fileno(), 0)
print(flush=True)
time.sleep(60)
"""


def test_a_process_that_maps_a_file_whose_name_is_not_utf8_is_ended(folder: Path) -> None:
    name = os.fsencode(folder) + b"/data\xff\xfe"
    with open(name, "wb") as file:  # noqa: PTH123  # a name in bytes
        file.truncate(4096)
    with closing(Session()) as present:
        environment = {**os.environ, reaper.MARKER: present.name}
        command = [sys.executable, "-c", MAPS, os.fsdecode(name)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert reaper.end(lambda: reaper.processes_of(present.name)) == []
    assert process.returncode == -9
