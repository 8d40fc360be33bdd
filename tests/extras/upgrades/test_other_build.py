"""Why an interpreter cannot run ranks, as its user reads it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.extras.upgrades.other_build import probe
from fixtures.launch import other_side
from fixtures.launch.other_side import BadInterpreter


def test_a_folder_is_answered_with_the_interpreter_in_it(tmp_path: Path) -> None:
    says = f"{tmp_path} is a folder: name the interpreter in it, such as {tmp_path / 'bin' / 'python'}"
    with pytest.raises(BadInterpreter, match=f"^{re.escape(says)}$"):
        probe(str(tmp_path))


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Replaces an interpreter."""

    def write(text: str) -> str:
        (tmp_path / "python").write_text(text)
        (tmp_path / "python").chmod(0o755)
        return str(tmp_path / "python")

    return write


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "#!/bin/sh\necho no libnccl.so.2 >&2; exit 127",
            "exited with code 127 while importing torch: no libnccl.so.2",
        ),
        ("#!/bin/sh\nkill -SEGV $$", "died of SIGSEGV while importing torch"),
        ("what is this", "does not run: Exec format error"),
    ],
)
def test_how_an_interpreter_ended_is_reported(script: Callable[[str], str], text: str, says: str) -> None:
    python = script(text)
    with pytest.raises(BadInterpreter, match=f"^{re.escape(f'{python} {says}')}$"):
        probe(python)


def test_an_interpreter_that_takes_too_long_is_reported(
    script: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_side, "_PROBE_TIMEOUT_S", 2)
    python = script("#!/bin/sh\necho waiting for the disk >&2; exec sleep 1000")
    with pytest.raises(BadInterpreter, match=r"had not imported torch after 2 s: waiting for the disk$"):
        probe(python)
