"""Errors for files that are not recordings or are incomplete: one line with the fact and the next move."""

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.extras.explain.command import read, read_chrome
from fixtures.trace.breakdown import break_down
from fixtures.trace.timeline import BadTrace
from tests.recordings import ddp_steps, sqlite


def chrome(folder: Path) -> Path:
    return ddp_steps().chrome(folder / "trace.json")


def error(path: Path) -> str:
    with pytest.raises(BadTrace) as caught:
        [break_down(timeline) for timeline in read(path)]
    return str(caught.value)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def exported(path: Path, *statements: str) -> Path:
    """An export of nsys, changed by these statements."""
    sqlite(path, [ddp_steps()])
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


NEITHER = " is neither a Chrome trace (.json, .json.gz) nor an SQLite export of nsys (.sqlite)"
NO_NUMBER = b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "now"}]}'


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("trace.json", b"", "trace.json is empty: record and export it again"),
        ("trace.json.gz", gzip.compress(b"", mtime=0), "trace.json.gz is empty: export it again"),
        ("empty.sqlite", b"", "empty.sqlite is empty: record and export it again"),
        ("picture.png", b"\x89PNG", NEITHER),
        ("notes.txt", b"hello, world", NEITHER),
        ("pyproject.toml", b"[project]\nname = 'my_project'\n", NEITHER),
        ("notes.json.gz", gzip.compress(b"hello, world", mtime=0), NEITHER),
        (
            "run.qdstrm",
            b"NVIDIA",
            "run.qdstrm is a raw recording of nsys: run `QdstrmImporter -i run.qdstrm -o run.nsys-rep`",
        ),
        ("other.json", b'{"rank": 0}', "not a Chrome trace, it has no traceEvents"),
        ("other.json", b'{"traceEvents": 5}', "not a Chrome trace, it has no traceEvents"),
        ("other.json", b"[]", "has no events"),
        ("odd.json", b'{"traceEvents": [{"ph": "X", "cat": "kernel"}]}', "odd.json is not a trace of torch.profiler"),
        ("odd.json", NO_NUMBER, "odd.json is not a trace of torch.profiler"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    assert says in error(written(tmp_path / name, data))


def test_a_truncated_or_damaged_compressed_trace_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(chrome(tmp_path).read_bytes())
    half = len(data) // 2
    assert "is damaged (Compressed file ended before" in error(written(tmp_path / "cut.json.gz", data[:half]))
    damaged = written(tmp_path / "bad.json.gz", data[:half] + bytes(2) + data[half + 2 :])
    assert error(damaged).startswith("bad.json.gz is damaged (")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE NVTX_EVENTS", "nor any other range"),
        ("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME", "--trace=cuda,nvtx"),
        (
            "UPDATE NVTX_EVENTS SET start = 'now'",
            "changed.sqlite NVTX_EVENTS, row 1: start is str, not int: export it again",
        ),
    ],
)
def test_an_export_that_lacks_ranges_launches_or_times_is_refused(tmp_path: Path, statement: str, says: str) -> None:
    assert says in error(exported(tmp_path / "changed.sqlite", statement))


def test_a_truncated_export_is_refused(tmp_path: Path) -> None:
    data = exported(tmp_path / "whole.sqlite").read_bytes()
    assert "is an incomplete or damaged SQLite file" in error(written(tmp_path / "cut.sqlite", data[: len(data) // 2]))


def test_another_kind_of_database_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as database:
        database.execute("CREATE TABLE users (name TEXT)")
    assert "has none of the tables CUPTI_ACTIVITY_KIND_KERNEL" in error(tmp_path / "other.sqlite")


LACKING = "ALTER TABLE CUPTI_ACTIVITY_KIND_{} DROP COLUMN {}"
COLUMNS = "deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, graphNodeId"
UNTIMED = f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 0, 0, {COLUMNS} FROM CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize(
    "statements",
    [
        *(
            [LACKING.format(of, column) for of in ("KERNEL", "MEMCPY", "MEMSET")]
            for column in ("globalPid", "graphNodeId")
        ),
        [UNTIMED],
    ],
    ids=["no globalPid", "no graphNodeId", "work without a recorded time"],
)
def test_what_an_older_nsys_lacks_or_did_not_record_changes_no_breakdown(tmp_path: Path, statements: list[str]) -> None:
    whole, changed = exported(tmp_path / "whole.sqlite"), exported(tmp_path / "changed.sqlite", *statements)
    before, after = ([break_down(timeline).steps for timeline in read(path)] for path in (whole, changed))
    assert before == after


def test_nothing_is_written_and_no_journal_is_played_back(tmp_path: Path) -> None:
    file = sqlite(tmp_path / "file.sqlite", [ddp_steps()])
    (tmp_path / "file.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(500))
    before = file.read_bytes()
    assert read(file)
    assert (file.read_bytes(), (tmp_path / "file.sqlite-journal").exists()) == (before, True)


def test_a_report_without_nsys_on_the_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = error(written(tmp_path / "run.nsys-rep", b"NVIDIA report"))
    assert message.startswith("run.nsys-rep needs nsys, which is not on PATH")
    assert "nsys export --type sqlite run.nsys-rep" in message


def fake_nsys(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_a_report_is_read_through_nsys_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = sqlite(tmp_path / "export.sqlite", [ddp_steps()])
    # nsys export --type sqlite --output OUT REPORT
    fake_nsys(tmp_path, f'[ "$1 $2 $3 $4" = "export --type sqlite --output" ] && cp {export} "$5"', monkeypatch)
    (timeline,) = read(written(tmp_path / "run.nsys-rep", b"NVIDIA report"))
    (expected,) = read(export)
    assert break_down(timeline).steps == break_down(expected).steps


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "exec sleep 600",
            "was stopped after 0.2 s: run `nsys export --type sqlite run.nsys-rep`, then give the .sqlite",
        ),
        ("echo 'Report version is too new' >&2; exit 1", "failed with exit code 1: Report version is too new"),
    ],
    ids=["hangs", "fails"],
)
def test_an_export_that_hangs_or_fails_is_reported(
    body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, body, monkeypatch)
    monkeypatch.setattr("fixtures.extras.explain.command._EXPORT_TIMEOUT_S", 0.2 if "sleep" in body else 60)
    assert error(written(tmp_path / "run.nsys-rep", b"NVIDIA report")) == f"nsys export of run.nsys-rep {says}"


STEP = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 900}


def traced(folder: Path, *events: dict[str, Any]) -> None:
    file = folder / "trace.json"
    file.write_text(json.dumps([STEP, *events]))
    read_chrome(file)


def at(category: str, name: str = "work") -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 10, "dur": 20}


def process(name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": 4, "args": {"name": name}}


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([at("kernel"), at("mtia_ccp_events"), at("mtia_runtime")], "mtia_ccp_events"),
        ([at("XPU_driver")], "xpu_driver"),
        ([at("newchip_runtime")], "newchip_runtime"),
        ([process("Ascend Hardware"), {"ph": "X", "name": "MatMul", "ts": "16995.3", "dur": 2}], "Ascend Hardware"),
        ([process("/device:TPU:0"), at("")], "/device:TPU"),
    ],
)
def test_another_accelerator_is_refused_by_name(tmp_path: Path, events: list[dict[str, Any]], named: str) -> None:
    with pytest.raises(BadTrace, match=r"comes from another accelerator \(") as raised:
        traced(tmp_path, *events)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    "events",
    [
        [at("cpu_op"), at("user_annotation", "gloo:all_reduce")],
        [at("cpu_op"), at("python_function"), at("cpu_instant_event"), at("cuda_runtime", "cudaGetDeviceCount")],
        [at("kernel"), at("gpu_memcpy"), at("cuda_driver"), at("user_annotation", "nccl:all_reduce")],
        [at("Kernel"), at("Runtime"), at("Memcpy"), at("Trace"), at("overhead"), at("io_wait")],
        [process("/device:GPU:0"), process("python"), at("cpu_op")],
    ],
)
def test_cpus_and_the_gpus_of_nvidia_and_amd_are_read(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    traced(tmp_path, *events)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (at("cuda_runtime", "cudaLaunchKernelExC"), r"\(1 x cudaLaunchKernelExC\): record the GPU too"),
        (at("cuda_runtime", "hipExtModuleLaunchKernel"), r"\(1 x hipExtModuleLaunchKernel\)"),
        (at("user_annotation", "nccl:all_to_all"), r"\(1 x nccl:all_to_all\): record the GPU too \(ProfilerActivity"),
    ],
)
def test_the_hosts_part_of_a_step_on_gpus_is_not_a_step_on_the_cpu(
    tmp_path: Path, event: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadTrace, match=says):
        traced(tmp_path, at("cpu_op"), event)
