"""Every command quotes control characters in names from files, and names files that are no records."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fixtures.__main__ import main
from fixtures.extras import EXTRAS
from fixtures.matrix.plain_text import quoted
from tests.recordings import ddp_steps

ESCAPE = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e"
# Those that were not deleted with their extra.
COMMANDS = [extra for extra in ("promote", "explain", "compare") if extra in EXTRAS]
RECORD = Path(__file__).parents[3] / "baselines/2x-nvidia-h200-nv18/0005_h200_precisions.json"


# Any: JSON.
def escaped(value: Any) -> Any:
    """A record in which every text that may say anything has an escape sequence."""
    if isinstance(value, dict):
        return {key: escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [escaped(one) for one in value]
    return value + ESCAPE if isinstance(value, str) and value[:4] != "2026" else value


def said(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with suppress(SystemExit):
        main(command)
    out, err = capsys.readouterr()
    assert quoted(out + err, lines=True) == out + err
    return out + err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_text_of_a_record_or_a_files_name_moves_the_cursor(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"night{ESCAPE}.json"
    file.write_text(json.dumps(escaped(json.loads(RECORD.read_text()))))
    storage = ["--storage", str(tmp_path / "none")] if command == "promote" else []
    assert "\\x1b[31m" in said([command, str(file), *storage, *([str(RECORD)] if command == "compare" else [])], capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_named_by_every_command(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert "pipe.json" in said([command, str(tmp_path / "pipe.json")], capsys)


def test_a_files_name_that_is_not_utf8_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank0\xff.json"))
    ddp_steps().chrome(file)
    assert "breakdown of a step on the GPU" in said(["explain", str(file)], capsys)
    file.write_text("{}")
    assert "rank0\\udcff.json" in said(["explain", str(file)], capsys)
