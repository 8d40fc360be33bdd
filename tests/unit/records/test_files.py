"""A record that replaces an older one, as with --benchmark-json: written completely, or the older one stays."""

import json
import os
import resource
import time
from pathlib import Path

import pytest

from fixtures.records.files import _finished, write_in_place


def test_a_record_takes_the_place_and_the_mode_of_the_one_before_also_behind_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "nightly.json", tmp_path / "link.json"
    file.write_text("last night's")
    file.chmod(0o640)
    link.symlink_to(file)
    write_in_place(link, {"benchmarks": []})
    assert json.loads(file.read_text()) == {"benchmarks": []}
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)


def test_where_the_disk_is_full_the_one_before_stays_whole(tmp_path: Path) -> None:
    file = tmp_path / "nightly.json"
    file.write_text("last night's")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_in_place(file, {"benchmarks": [0.1] * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == "last night's"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_killed_run_left_is_removed_and_what_is_not_its_own_stays(tmp_path: Path) -> None:
    left, others = tmp_path / ".nightly.json.a1b2.part", tmp_path / ".weekly.json.a1b2.part"
    for part in (left, others):
        part.write_text("half a rec")
        os.utime(part, (time.time() - 3601,) * 2)
    write_in_place(tmp_path / "nightly.json", {})
    assert {file.name for file in tmp_path.iterdir()} == {"nightly.json", others.name}


def test_an_owned_file_stays_however_old_the_clock_makes_it(tmp_path: Path) -> None:
    file = tmp_path / "nightly.json"
    with _finished(tmp_path, "nightly.json.", b"first") as part:  # a run saves
        os.utime(part, (time.time() - 7200,) * 2)  # the clock was set forward
        write_in_place(file, {})  # another run saves
        part.replace(file)
    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_in_place(pipe, {"benchmarks": []})
    assert json.loads(os.read(reader, 1000)) == {"benchmarks": []}
    os.close(reader)
    assert pipe.is_fifo()
