"""Only regular files below a size are read; everything else is named at once, and nothing is waited for."""

import gzip
import os
import socket
from pathlib import Path

import pytest

from fixtures.inputs import regular_file
from fixtures.inputs.regular_file import MAX_BYTES, UnreadableFile, decompressed, read_regular


def reason(path: Path) -> str:
    with pytest.raises(UnreadableFile) as refused:
        read_regular(path)
    return str(refused.value)


def test_a_pipe_and_a_link_to_it_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    assert reason(tmp_path / "pipe") == reason(tmp_path / "link") == "is a pipe, not a regular file"


def test_a_socket_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(tmp_path / "socket"))
        assert reason(tmp_path / "socket") == "is a socket, not a regular file"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/dev/zero", "is a device, not a regular file"),
        ("/proc/self/maps", "is a file of the kernel (/proc, /sys), not a regular file"),
        ("/proc/kmsg", "is a file of the kernel (/proc, /sys), not a regular file"),
        ("/", "cannot be read: it is a folder"),
        ("/no/such/file", "cannot be read: No such file or directory"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_what_is_no_file_of_data_is_named(path: str, says: str) -> None:
    assert reason(Path(path)) == says


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    assert reason(tmp_path / "link").startswith("cannot be read: Too many levels of symbolic links")


def test_a_huge_file_without_content_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**13)
    assert reason(tmp_path / "huge") == f"has 10,000,000 MB, at most {MAX_BYTES / 1e6:.0f} MB are read"


def test_a_small_file_does_not_decompress_to_a_huge_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_file, "MAX_DECOMPRESSED_BYTES", 10**6)
    bomb = gzip.compress(bytes(10**6)) * 3
    with pytest.raises(UnreadableFile, match=r"^has more than 1 MB once it is decompressed$"):
        decompressed(bomb)


def test_members_of_a_compressed_file_are_read_one_after_the_other() -> None:
    assert decompressed(gzip.compress(b"one, ") + gzip.compress(b"two") + b"\0\0") == b"one, two"
    assert decompressed(b"plain") == b"plain"
