"""An import that ends its process is an error in this one, which goes on."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.session import import_apart
from fixtures.session.import_apart import DiedWhileImporting, answer_apart


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_its_group() -> None:
    os.kill(0, signal.SIGKILL)


def leave_in_c() -> None:
    ctypes.CDLL(None)._exit(0)


def become_another_program() -> None:
    os.execv("/bin/true", ["true"])


def leave_with_words() -> None:
    os.write(2, b"first\nno licence \x1b[31mfound\n")
    os._exit(3)


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (lambda: os._exit(0), "importing it ended its process: it exited with code 0"),
        (leave_in_c, "importing it ended its process: it exited with code 0"),
        (become_another_program, "importing it ended its process: it exited with code 0"),
        (kill_itself, "importing it ended its process: it died of SIGKILL"),
        (kill_its_group, "importing it ended its process: it died of SIGKILL"),
        (leave_with_words, "importing it ended its process: it exited with code 3: no licence \\x1b[31mfound"),
    ],
)
def test_the_end_of_the_process_is_reported(ends: Callable[[], None], says: str) -> None:
    with pytest.raises(DiedWhileImporting) as died:
        answer_apart(ends)
    assert str(died.value) == says


def test_an_import_without_an_end_is_ended_with_what_it_has_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hang() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (tmp_path / "pid").write_text(str(child.pid))
        time.sleep(600)

    monkeypatch.setattr(import_apart, "TIMEOUT_S", 1)
    with pytest.raises(DiedWhileImporting, match=r"^importing it did not end within 1 s$"):
        answer_apart(hang)
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    deadline = time.monotonic() + 10
    while stat.exists() and ") Z " not in stat.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not stat.exists() or ") Z " in stat.read_text()


def test_an_answer_of_any_size_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    def answer() -> dict[str, str]:
        print("said while it was imported")
        return {"name": "x" * 10**6}

    assert answer_apart(answer) == {"name": "x" * 10**6}
    assert capsys.readouterr().err == "said while it was imported\n"
