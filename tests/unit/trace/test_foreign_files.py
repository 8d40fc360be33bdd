"""Only regular files below a size are read; damaged JSON and numbers that are too large are an error."""

import gzip
import os
from pathlib import Path

import pytest

from fixtures.trace import foreign_files
from fixtures.trace.foreign_files import MAX_BYTES, UnreadableFile, decompressed, read_regular, strict_json


def reason(path: Path) -> str:
    with pytest.raises(UnreadableFile) as refused:
        read_regular(path)
    return str(refused.value)


def test_a_pipe_and_a_link_to_it_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    assert reason(tmp_path / "pipe") == reason(tmp_path / "link") == "is not a regular file"


def test_a_huge_or_missing_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**13)
    assert reason(tmp_path / "huge") == f"has 10,000,000 MB, at most {MAX_BYTES / 1e6:.0f} MB are read"
    assert reason(Path("/no/such/file")) == "cannot be read: No such file or directory"


def test_a_small_file_does_not_decompress_to_a_huge_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_files, "MAX_DECOMPRESSED_BYTES", 10**6)
    with pytest.raises(UnreadableFile, match=r"^has more than 1 MB once it is decompressed$"):
        decompressed(gzip.compress(bytes(10**6)) * 3)


def test_compressed_data_and_others_are_read() -> None:
    assert decompressed(gzip.compress(b"one, ") + gzip.compress(b"two") + b"\0\0") == b"one, two"
    assert decompressed(b"plain") == b"plain"


# Numbers that Python's reader of JSON takes, and with which nothing can be calculated, are an error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[1, NaN]", "the number NaN is beyond 1e+30"),
        (b"[1e999]", "the number 1e999 is beyond 1e+30"),
        (b"[" + b"9" * 5000 + b"]", f"the number {'9' * 40} is beyond 1e+30"),
        (b"[" * 100_000, "recursion"),
        (b'["\xff"]', "can't decode byte 0xff in position 2"),
        (b'{"a": 1', "Expecting ',' delimiter: line 1 column 8"),
    ],
)
def test_what_is_wrong_is_reported(text: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile) as refused:
        strict_json(text)
    assert str(refused.value).startswith("cannot be read: incomplete or damaged JSON (")
    assert says in str(refused.value)
