"""Ranks forked from a warm process that has imported torch: a start takes 0.1 s of CPU, not 3.

A plugin: ``pytest perf ... -p tests.warm_ranks``, for runs that test what ranks do, not how they start. Forks of one
process have the same hash seed and address space, which launches of a measurement must not share: the suite itself
spawns its ranks. So do these runs where a rank would differ from the warm process before it imports torch: another
interpreter, a GPU, a network namespace, another OMP_NUM_THREADS.
"""

import atexit
import ctypes
import gc
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import spawn
from pathlib import Path
from typing import Any, NoReturn

from fixtures.launch import processes, reaper

ROOT = Path(__file__).parent.parent
# Variables, for the runs that a test starts too: the folder of the warm process's socket; do without it.
_FOLDER, _SPAWNED = "TEST_WARM_RANKS", "TEST_SPAWNED_RANKS"
# In a forked rank: the process of its run, which is not its parent.
RUN = "TEST_WARM_RANKS_RUN"
_NO_SESSION = "0" * 32
_READ_BY_IMPORTS = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "LD_", "MALLOC_", "PYTHON", "TORCH", "PYTORCH")
# Of these, what is read later or set by torch itself.
_LATER = (
    *("OPENBLAS_NUM_THREADS", "PYTHONPATH", "TORCH_DISTRIBUTED_DEBUG"),
    *("TORCHINDUCTOR_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH"),
)
_CONTEXT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
# Freed memory stays in the process: a quarter of the CPU time of the checks of hooks was page faults.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
_LENGTH = struct.Struct("<I")
_DEADLINE_S = 120

_spawn = processes.new_process
_environment = dict(os.environ)  # while a set starts, it is that of its ranks


def pytest_configure() -> None:
    processes.new_process = new_process


@contextmanager
def spawned() -> Iterator[None]:
    """Context in which ranks are spawned, by the runs that a test starts too."""
    before = os.environ.get(_SPAWNED, "")
    os.environ[_SPAWNED] = "1"
    try:
        yield
    finally:
        os.environ[_SPAWNED] = before


# Any: the arguments of a rank; a stand-in for multiprocessing's process.
def new_process(arguments: tuple[Any, ...], name: str) -> Any:
    """A rank's process: a fork of the warm one where that makes no difference."""
    gpu = arguments[5]
    if not os.environ.get(_SPAWNED) and gpu is None and os.fsdecode(spawn.get_executable()) == sys.executable:
        folder = _folder()
        if json.loads((folder / "conditions").read_text()) == _conditions():
            return _Forked(folder, arguments)
    return _spawn(arguments, name)


def options() -> tuple[str, ...]:
    """Return the options of a run whose ranks are forked, and start the warm process for it."""
    if os.environ.get(_SPAWNED):
        return ()
    _folder()
    return ("-p", "tests.warm_ranks")


def _folder() -> Path:
    """Start the warm process if there is none; return its folder."""
    return Path(os.environ.get(_FOLDER) or start())


def _conditions() -> dict[str, Any]:
    """What a process has from its start on, as JSON."""
    limits = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
    return {
        "python": sys.executable,
        "code": str(Path(processes.__file__)),
        "namespaces": [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "user", "mnt")],
        "cores": sorted(os.sched_getaffinity(0)),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": [list(resource.getrlimit(limit)) for limit in limits],
        "umask": next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask")),
        "variables": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_READ_BY_IMPORTS) and not name.startswith(_LATER)
        },
    }


class _Forked:
    """What ``fixtures.launch.processes`` uses of multiprocessing's Process, for a child of the warm process."""

    def __init__(self, folder: Path, arguments: tuple[Any, ...]) -> None:
        self._folder = folder
        self._arguments = arguments
        self.pid: int | None = None
        self.sentinel = -1
        self._exit_code: int | None = None

    def start(self) -> None:
        rank, size, end, folder, _, gpu, imports, first, bare = self._arguments
        asked = {
            "environment": {**os.environ, RUN: str(os.getpid())},
            "folder": str(Path.cwd()),
            "path": sys.path,
            "arguments": [folder, None, gpu, list(imports), list(first), bare],
            "rank": rank,
            "size": size,
        }
        self.sentinel, status = os.pipe()
        data = json.dumps(asked).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_DEADLINE_S)
            connection.connect(str(self._folder / "socket"))
            socket.send_fds(connection, [_LENGTH.pack(len(data))], [end.fileno(), status])
            os.close(status)
            connection.sendall(data)
            self.pid = _LENGTH.unpack(connection.recv(_LENGTH.size))[0]

    @property
    def exitcode(self) -> int | None:
        self.join(0)
        return self._exit_code

    def join(self, timeout: float | None = None) -> None:
        if self._exit_code is None and select.select([self.sentinel], [], [], timeout)[0]:
            status = os.read(self.sentinel, 4)
            self._exit_code = struct.unpack("<i", status)[0] if status else 255

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.sentinel)


@cache
def start() -> str:
    """Start the warm process of this one and its children, with which it ends; return its folder once it listens."""
    folder = tempfile.mkdtemp(prefix="warm-")
    atexit.register(shutil.rmtree, folder)
    process = warm_process(
        "tests.warm_ranks", folder, variables={**_environment, **_CONTEXT, **_KEEP_MEMORY, reaper.MARKER: _NO_SESSION}
    )
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], _DEADLINE_S)[0], "the warm process does not come up"
    assert process.stdout.readline() == b"ready\n"
    os.environ[_FOLDER] = folder
    return folder


def warm_process(module: str, *arguments: str, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start ``python -m module`` with pipes; it ends with this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )

    def end() -> None:
        process.kill()
        process.communicate()

    atexit.register(end)
    return process


# In the warm process


def main(folder: Path) -> None:
    """Import what ranks import, then fork one for each request."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    marker = libc.getenv(reaper.MARKER.encode())  # where /proc/PID/environ is read from
    ready = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for name in _KEEP_MEMORY:  # read when the process started; no condition of a rank
        del os.environ[name]
    conditions = json.dumps(_conditions())  # before torch sets variables of its own
    (folder / "conditions").write_text(conditions)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen(64)
    ready.write(b"ready\n")  # requests wait for the imports
    _import_all()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "only a process of one thread can be forked"
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake.fileno())
    statuses: dict[int, int] = {}
    while True:
        readable = select.select([listener, woken, sys.stdin], [], [])[0]
        if sys.stdin in readable:
            return
        if woken in readable:
            woken.recv(4096)
            _report_exits(statuses)
        if listener in readable:
            connection, _ = listener.accept()
            asked, (end, status) = _received(connection)
            pid = os.fork()
            if pid == 0:
                for file in (listener, woken, wake, connection):
                    file.close()
                os.close(status)
                for other in statuses.values():
                    os.close(other)
                _run(asked, end, marker)
            os.close(end)
            statuses[pid] = status
            with connection, suppress(OSError):
                connection.sendall(_LENGTH.pack(pid))


def _import_all() -> None:
    import importlib
    import pkgutil

    import fixtures.ranks

    gc.disable()
    importlib.import_module("torch._dynamo")
    for module in pkgutil.iter_modules(fixtures.ranks.__path__):
        importlib.import_module(f"fixtures.ranks.{module.name}")
    gc.freeze()  # else each fork collects, and copies, all that was imported
    gc.enable()


def _report_exits(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with suppress(OSError):
            os.write(statuses[pid], struct.pack("<i", os.waitstatus_to_exitcode(status)))
        os.close(statuses.pop(pid))


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
    data = b""
    while len(data) < _LENGTH.unpack(header)[0]:
        data += connection.recv(1 << 20)
    return json.loads(data), descriptors


def _run(asked: dict[str, Any], end: int, marker: int) -> NoReturn:
    """In a fork: the rank, as if Python had just been started for it."""
    from torch import distributed

    from fixtures.ranks import entry

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    ctypes.memmove(marker, asked["environment"][reaper.MARKER].encode(), len(_NO_SESSION))
    os.environ.clear()
    os.environ.update(asked["environment"])
    distributed.set_debug_level_from_env()  # type: ignore[attr-defined]  # torch._C's
    os.chdir(asked["folder"])
    sys.path[:] = asked["path"]
    tempfile.tempdir = None
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    entry.main(asked["rank"], asked["size"], socket.socket(fileno=end), *asked["arguments"])
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
