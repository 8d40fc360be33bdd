"""Only regular files below a size are read; a pipe is not waited for."""

import gzip
import os
from pathlib import Path

import pytest

from fixtures.trace import foreign_files
from fixtures.trace.foreign_files import MAX_BYTES, UnreadableFile, decompressed, read_regular


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
