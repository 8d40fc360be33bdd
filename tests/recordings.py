"""Recordings of a rank made by hand, written as torch.profiler writes them and as nsys exports them.

The forms are those of the documents: the trace event format with Kineto's categories and arguments, and NVIDIA's
«SQLite Export Schema Reference». Times are in microseconds.
"""

import gzip
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fixtures.trace.chrome import read_events, timeline_of
from fixtures.trace.timeline import Timeline

TRAIN, AUTOGRAD, OTHER = 101, 102, 103
COMPUTE_STREAM, NCCL_STREAM = 7, 20
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPIED_BYTES = 4096
GEMM = "ampere_sgemm_128x64_tn"

_COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
_SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  text TEXT, globalTid INTEGER, textId INTEGER);
"""
_GRAPH_TRACE = """
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  graphId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER);
"""


@dataclass(kw_only=True)
class Recording:
    """calls: (name, thread, start, end, correlation). work: (category, name, stream, start, end, correlation)."""

    rank: int = 0
    pid: int | None = None
    calls: list[tuple[str, int, float, float, int]] = field(default_factory=list)
    work: list[tuple[str, str, int, float, float, int]] = field(default_factory=list)
    ranges: list[tuple[str, int, float, float]] = field(default_factory=list)

    @property
    def process(self) -> int:
        return 4000 + self.rank if self.pid is None else self.pid

    def range(self, name: str, start: float, end: float, thread: int = TRAIN) -> None:
        self.ranges.append((name, thread, start, end))

    def call(self, name: str, at: float, end: float | None = None, thread: int = TRAIN) -> int:
        """A CUDA call; its correlation id."""
        self.calls.append((name, thread, at, at + 1 if end is None else end, len(self.calls) + 1))
        return len(self.calls)

    def run(
        self,
        name: str,
        start: float,
        end: float,
        *,
        at: float,
        thread: int = TRAIN,
        stream: int = COMPUTE_STREAM,
        by: int | None = None,
    ) -> None:
        """Work on the GPU: a kernel, ``Memcpy HtoD``, or ``Memset``; launched at ``at``, or by the call ``by``."""
        category = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name.split()[0], "kernel")
        correlation = self.call("cudaLaunchKernel", at, thread=thread) if by is None else by
        self.work.append((category, name, stream, start, end, correlation))

    def chrome(self, path: Path, *, began_s: int = 1_800_000_000, world_size: int = 2) -> Path:
        """Write it as torch.profiler does; compressed where the name ends in .gz. began_s: by the clock on the wall."""
        pid = self.process
        events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {}}]
        for name, thread, start, end in self.ranges:
            events.append(_x("user_annotation", name, pid, thread, start, end))
            # Kineto's projection: an event on the device that is no work, and longer than the work in it.
            for stream in (COMPUTE_STREAM, NCCL_STREAM):
                events.append(_x("gpu_user_annotation", name, 0, stream, start, end + 5000))
        for name, thread, start, end, correlation in self.calls:
            events.append(_x("cuda_runtime", name, pid, thread, start, end, correlation=correlation))
        for category, name, stream, start, end, correlation in self.work:
            arguments = {"device": self.rank, "stream": stream, "correlation": correlation}
            arguments |= {"bytes": COPIED_BYTES} if category == "gpu_memcpy" else {}
            events.append(_x(category, name, self.rank, stream, start, end, **arguments))
        trace = {
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": world_size},
            "baseTimeNanoseconds": began_s * 10**9,
            "traceEvents": events,
        }
        text = json.dumps(trace).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def sqlite(path: Path, recordings: Sequence[Recording], *, text_ids: bool = False, graph: bool = False) -> Path:
    """Write them as one export of nsys, one process each; with ``text_ids`` NVTX names are in StringIds, with ``graph``
    the work of a cudaGraphLaunch is one row of CUPTI_ACTIVITY_KIND_GRAPH_TRACE."""
    names: dict[str, int] = {}

    def name_id(name: str) -> int:
        return names.setdefault(name, len(names) + 1)

    with closing(sqlite3.connect(path)) as db:
        db.executescript(_SCHEMA + (_GRAPH_TRACE if graph else ""))
        for recording in recordings:
            process = (1 << 56) | recording.process << 24
            for name, thread, start, end in recording.ranges:
                text, text_id = (None, name_id(name)) if text_ids else (name, None)
                nvtx = (_ns(start), _ns(end), 59, 0, text, process | thread, text_id)
                db.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?,?)", nvtx)
            # A domain's creation has no end; a mark has none either.
            db.execute("INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 0, 'NCCL', ?, NULL)", (process | TRAIN,))
            graphs = set()
            for name, thread, start, end, correlation in recording.calls:
                row = (_ns(start), _ns(end), 0, process | thread, correlation, name_id(f"{name}_v10000"), 0)
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?,?,?)", row)
                if name == "cudaGraphLaunch":
                    graphs.add(correlation)
            for category, name, stream, start, end, correlation in recording.work:
                place = (_ns(start), _ns(end), recording.rank, 1, stream, correlation, process)
                node = 77 if correlation in graphs else None
                if graph and correlation in graphs:
                    continue
                if category == "kernel":
                    values = (*place, name_id(name), name_id(name.partition("(")[0]), node)
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?,?,?)", values)
                elif category == "gpu_memcpy":
                    values = (*place, COPIED_BYTES, _COPY_KINDS[name.split()[1]], node)
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,?,?,?,?,?,?,?,?)", values)
                else:
                    values = (*place, 0, 4096, node)
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?,?,?,?,?,?,?,?,?,?)", values)
            for correlation in graphs if graph else ():
                spans = [(start, end) for _, _, _, start, end, launch in recording.work if launch == correlation]
                first, last = min(start for start, _ in spans), max(end for _, end in spans)
                whole = (_ns(first), _ns(last), recording.rank, 1, 1, 7, correlation, process)
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?,?,?,?,?,?,?,?)", whole)
        db.executemany("INSERT INTO StringIds VALUES (?,?)", [(number, name) for name, number in names.items()])
        db.commit()
    return path


def ddp_steps(rank: int = 0, *, late_us: float = 0, steps: int = 3, nccl: str = NCCL) -> Recording:
    """Steps of DDP, each 1000 us on the GPU and 400 us on the host, which runs ahead.

    On the GPU, from its start: copy HtoD 0-20, forward 20-320, backward 320-720 launched by autograd's thread, an
    all-reduce under it 420-620, another 700-900, copy DtoD 880-930, optimizer 950-1000. ``late_us``: by how much this
    rank joins the second all-reduce later than at 700.
    """
    recording = Recording(rank=rank)
    for step in range(steps):
        host, device = 400 * step, 1000 + 1000 * step
        recording.range(f"Batch {step}", host, host + 380)
        recording.range("get batch", host + 1, host + 20)
        recording.run("Memcpy HtoD (Pinned -> Device)", device, device + 20, at=host + 5)
        recording.range("forward", host + 30, host + 100)
        recording.run(GEMM, device + 20, device + 320, at=host + 40)
        recording.range("backward", host + 110, host + 300)
        recording.run(GEMM, device + 320, device + 720, at=host + 120, thread=AUTOGRAD)
        recording.run(nccl, device + 420, device + 620, at=host + 130, thread=AUTOGRAD, stream=NCCL_STREAM)
        recording.run(nccl, device + 700 + late_us, device + 900, at=host + 140, thread=AUTOGRAD, stream=NCCL_STREAM)
        recording.run("Memcpy DtoD (Device -> Device)", device + 880, device + 930, at=host + 150, thread=AUTOGRAD)
        recording.range("optimizer step", host + 310, host + 370)
        recording.run("void multi_tensor_apply_kernel<SGD>()", device + 950, device + 1000, at=host + 320)
    return recording


def _x(category: str, name: str, pid: int, tid: int, start: float, end: float, **arguments: int) -> dict[str, Any]:
    where = {"cat": category, "name": name, "pid": pid, "tid": tid}
    return {"ph": "X", **where, "ts": start, "dur": end - start, "args": arguments}


def _ns(us: float) -> int:
    return round(1000 * us)


def read_chrome(file: Path) -> Timeline:
    """The timeline of a Chrome trace."""
    return timeline_of(file.name, read_events(file))


def timelines(file: Path) -> list[Timeline]:
    """Those of a trace, or of an export of nsys, for which an extra has the reader."""
    if file.suffix != ".sqlite":
        return [read_chrome(file)]
    reader = pytest.importorskip("fixtures.extras.explain.command", reason="the extra explain was deleted")
    read: list[Timeline] = reader.read_sqlite(file)
    return read
