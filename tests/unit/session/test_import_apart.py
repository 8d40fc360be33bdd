"""An import that ends its process is an error in this one, which goes on."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from fixtures.session import import_apart
from fixtures.session.import_apart import DiedWhileImporting, answer_apart


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
