"""Records are written completely or not at all: those that replace an older one, and numbered ones."""

import json
import os
import resource
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, repeat
from multiprocessing import get_context
from pathlib import Path

import pytest

from fixtures.records.files import write_in_place, write_numbered


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


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_in_place(pipe, {"benchmarks": []})
    assert json.loads(os.read(reader, 1000)) == {"benchmarks": []}
    os.close(reader)
    assert pipe.is_fifo()


def test_what_processes_write_at_the_same_time_under_one_name_or_two_gets_numbers_of_its_own(tmp_path: Path) -> None:
    records = [{"number": number} for number in range(60)]
    with ProcessPoolExecutor(4, mp_context=get_context("forkserver")) as pool:
        names = cycle(("night", "night", "candidate"))
        files = list(pool.map(write_numbered, repeat(tmp_path), names, records))
    assert sorted(file.name.partition("_")[0] for file in files) == [f"{number:04}" for number in range(1, 61)]
    assert [json.loads(file.read_text()) for file in files] == records
