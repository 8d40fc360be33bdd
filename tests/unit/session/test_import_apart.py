"""An import that ends its process is an error in this one, which goes on; no process that it starts outlives it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.launch import reaper
from fixtures.session import import_apart
from fixtures.session.import_apart import DiedWhileImporting, answer_apart, ends_what_it_starts


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (lambda: os._exit(0), "importing it ended its process: it exited with code 0"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "importing it ended its process: it died of SIGKILL"),
    ],
)
def test_the_end_of_the_process_is_reported(ends: Callable[[], None], says: str) -> None:
    with pytest.raises(DiedWhileImporting) as died:
        answer_apart("mine", ends)
    assert str(died.value) == says


def test_an_import_without_an_end_is_announced_and_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_apart, "TIMEOUT_S", 0.4)
    monkeypatch.setattr(import_apart, "_SILENT_S", 0.2)
    with pytest.raises(DiedWhileImporting, match=r"^importing it did not end within 0\.4 s$"):
        answer_apart("mine", lambda: time.sleep(600))
    assert capsys.readouterr().err == "importing mine ...\n"


def test_an_answer_of_any_size_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    def answer() -> dict[str, str]:
        print("said while it was imported")
        return {"name": "x" * 10**6}

    assert answer_apart("mine", answer) == {"name": "x" * 10**6}
    assert capfd.readouterr() == ("said while it was imported\n", "")


def test_how_the_copy_ended_may_arrive_together_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(reading: int, name: str) -> bytes:
        answered = b""
        while answered.count(b"\n") < 2:
            answered += os.read(reading, 65536)
        return answered

    monkeypatch.setattr(import_apart, "_read", late)
    assert answer_apart("mine", lambda: {"seven": 7}) == {"seven": 7}


def start_a_daemon() -> int:
    """Start a process in a session of its own, with an empty environment, whose parent has ended. Returns its id."""
    command = ["sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!"]
    started = subprocess.run(command, env={}, stdout=subprocess.PIPE, start_new_session=True, check=True)
    return int(started.stdout)


def test_a_process_that_the_import_starts_ends_with_it() -> None:
    pid = answer_apart("mine", start_a_daemon)
    assert reaper.state_of(pid) in (None, "Z")


def test_a_process_ends_with_an_import_that_ends_itself() -> None:
    reading, writing = os.pipe()

    def start_and_end() -> None:
        os.write(writing, str(start_a_daemon()).encode())
        os._exit(0)

    with pytest.raises(DiedWhileImporting, match="it exited with code 0"):
        answer_apart("mine", start_and_end)
    assert reaper.state_of(int(os.read(reading, 20))) in (None, "Z")
    os.close(reading)
    os.close(writing)


def test_a_process_that_an_import_in_this_process_starts_ends_with_it() -> None:
    with subprocess.Popen(["sleep", "600"]) as of_pytest:
        with ends_what_it_starts():
            daemon, child = start_a_daemon(), subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
        assert reaper.state_of(daemon) in (None, "Z")
        assert child.poll() is not None
        assert of_pytest.poll() is None
        of_pytest.kill()


@pytest.mark.parametrize("text", [b"1\n", b"[]\n", b"{}\n", b"\xff\0", b"null"])
def test_an_import_that_writes_into_every_descriptor_is_one_line(text: bytes) -> None:
    def pipes() -> dict[int, str]:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
        return {int(link.name): str(link.readlink()) for link in links if "pipe" in str(link.readlink())}

    of_pytest = pipes()

    def write_everywhere() -> None:
        for descriptor, pipe in pipes().items():
            if pipe not in of_pytest.values():
                os.write(descriptor, text)

    with pytest.raises(DiedWhileImporting, match=r"^importing it wrote .* into a file descriptor that it did"):
        answer_apart("mine", write_everywhere)
