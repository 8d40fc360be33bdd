"""Machines for tests of runs on several: network namespaces of this one, joined by a bridge, each with its own name.

They need no privileges but a kernel that lets users make namespaces, and ``ip`` of iproute2.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PORT = 29533


class Machines:
    """Namespaces that can run commands. Machine k has the address 10.77.0.<k + 1> and the name host<k>."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._switch = self._hold("unshare", "--user", "--map-root-user", "--net")
        self._inside = ("nsenter", "-t", str(self._switch.pid), "--user", "--net", "--preserve-credentials")
        self._do(*self._inside, "ip", "link", "add", "br0", "type", "bridge")
        self._do(*self._inside, "ip", "link", "set", "br0", "up")
        self._machines = [self._add(index) for index in range(count)]

    def run(
        self,
        index: int,
        *command: str,
        output: Path,
        environ: Mapping[str, str] | None = None,
        root: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command on a machine, in a session of its own. root: another copy of this repository."""
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*self.command(index), *command],
                cwd=root or ROOT,
                env={
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(root or ROOT), os.environ.get("PYTHONPATH")))),
                    **(environ or {}),
                },
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def torchrun(
        self,
        index: int,
        *arguments: str,
        output: Path,
        environ: Mapping[str, str] | None = None,
        root: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start ``torchrun -m pytest`` on a machine, with the first machine's address for the rendezvous."""
        return self.run(
            index,
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", str(self.count), "--node-rank", str(index)),
            *("--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", str(PORT)),
            *("-m", "pytest", *arguments),
            output=output,
            environ={"TMPDIR": str(self.folder(index)), **(environ or {})},
            root=root,
        )

    def folder(self, index: int) -> Path:
        """The temporary folder of a machine."""
        folder = self._folder / f"m{index}"
        folder.mkdir(exist_ok=True)
        return folder

    def command(self, index: int) -> Sequence[str]:
        """The beginning of a command that runs on a machine."""
        return ("nsenter", "-t", str(self._machines[index].pid), "--user", "--net", "--uts", "--preserve-credentials")

    def processes(self, index: int) -> list[int]:
        """The processes that run on a machine, but for the one that holds its namespaces."""
        holder = self._machines[index].pid
        namespace = Path(f"/proc/{holder}/ns/net").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != holder:
                with contextlib.suppress(OSError):  # it has exited
                    if (entry / "ns" / "net").readlink() == namespace:
                        found.append(int(entry.name))
        return found

    def cut(self, index: int) -> None:
        """Take down the link of a machine, at the switch: both sides hear nothing more, as from a pulled cable."""
        self._do(*self._inside, "ip", "link", "set", f"port{index}", "nomaster")

    def slow(self, index: int, rate: str) -> None:
        """Limit what a machine receives."""
        shape = ("tc", "qdisc", "add", "dev", f"port{index}", "root", "tbf", "rate", rate, "burst", "64kb")
        self._do(*self._inside, *shape, "latency", "50ms")

    def close(self) -> None:
        """End everything on the machines, and the machines."""
        # torchrun starts pytest in a session of its own, and pytest its ranks.
        for pid in (pid for index in range(len(self._machines)) for pid in self.processes(index)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (*self._running, *self._machines, self._switch):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _add(self, index: int) -> subprocess.Popen[bytes]:
        machine = self._hold(*self._inside, "unshare", "--net", "--uts")
        inside = ("nsenter", "-t", str(machine.pid), "--user", "--net", "--uts", "--preserve-credentials")
        self._do(
            *self._inside,
            *("ip", "link", "add", f"port{index}", "type", "veth"),
            *("peer", "name", "eth0", "netns", str(machine.pid)),
        )
        self._do(*self._inside, "ip", "link", "set", f"port{index}", "master", "br0", "up")
        self._do(*inside, "ip", "address", "add", f"10.77.0.{index + 1}/24", "dev", "eth0")
        self._do(*inside, "ip", "link", "set", "eth0", "up")
        self._do(*inside, "ip", "link", "set", "lo", "up")
        self._do(*inside, "hostname", f"host{index}")
        return machine

    def _hold(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process that keeps new namespaces alive; it reports when it is in them."""
        process = subprocess.Popen([*command, "sh", "-c", "echo in; exec sleep infinity"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as said:
            assert said.readline() == b"in\n"
        return process

    def _do(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)


def require_namespaces() -> None:
    """Skip the test where network namespaces cannot be made and joined."""
    for program in ("ip", "tc"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} of iproute2 is not installed")
    try_one = ["unshare", "--user", "--map-root-user", "--net", "true"]
    if subprocess.run(try_one, capture_output=True, check=False).returncode:
        pytest.skip("this user may not make network namespaces")


@contextlib.contextmanager
def machines(count: int, folder: Path) -> Iterator[Machines]:
    """Context with so many machines; skips the test where there can be none."""
    require_namespaces()
    made = Machines(count, folder)
    try:
        yield made
    finally:
        made.close()


def wait_for(process: subprocess.Popen[bytes], within_s: float, output: Path) -> int:
    """Return the exit code of a process, which must end in time."""
    deadline = time.monotonic() + within_s
    while process.poll() is None:
        assert time.monotonic() < deadline, output.read_text(errors="replace")
        time.sleep(0.1)
    return process.returncode
