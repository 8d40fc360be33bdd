"""Workloads with one planted fault each, and what a run of ``pytest perf`` must say of it.

``studies.faulty_workloads:killed__r1_s5_3``: the kind ``killed``, in rank 1 of the world, in step 5 of the launch; the
last number tells copies apart. Step 0 is the preflight. To add a kind, add an entry to ``KINDS``.
"""

import functools
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fixtures.matrix.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn
    from torch.optim import Optimizer

HEALTHY = "healthy"
# A variable that names a file: each fault appends its kind and the time at which it happens.
FAULTS_LOG = "DDP_PERF_STUDIES_FAULTS"
_NAME = re.compile(r"(?P<kind>[a-z0-9_]+)__r(?P<rank>\d+)_s(?P<step>\d+)_\d+")
_calls: Counter[str] = Counter()
_kept: list[object] = []


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A fault, and what must be seen of it.

    act: what the rank does in its step.
    fails: pattern in the message of the failed test, with ``{rank}`` and ``{step}``; None: the test passes.
    says: part of the run's line about what the process keeps; None: there is no such line.
    """

    act: Callable[[], object]
    fails: str | None = None
    says: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A workload of this module by its name."""

    kind: str
    rank: int
    step: int

    @property
    def fails(self) -> str | None:
        """Pattern in the message of the failed test; None: it passes."""
        pattern = KINDS[self.kind].fails
        # The preflight was a step of the same process, unless the ranks were started anew since.
        step = f"({self.step - 1}|{self.step})"
        return None if pattern is None else pattern.format(rank=self.rank, step=step)


def planted(name: str) -> Planted | None:
    """The fault in the name of a workload; None for another name."""
    match = _NAME.fullmatch(name)
    if match is None or match["kind"] not in KINDS:
        return None
    return Planted(kind=match["kind"], rank=int(match["rank"]), step=int(match["step"]))


def __getattr__(name: str) -> Workload:
    fault = planted(name)
    if fault is None:
        raise AttributeError(name)
    loss = functools.partial(_loss, name, fault)
    return Workload(name=name, batch_size=16, model=_model, sample=_sample, loss=loss, optimizer=_optimizer)


def _model() -> "nn.Module":
    """Some milliseconds of arithmetic a step: what a busy thread or a slow setting would change."""
    from torch import nn

    return nn.Sequential(*(part for _ in range(8) for part in (nn.Linear(256, 256), nn.GELU())))


def _sample() -> "tuple[Tensor, ...]":
    import torch

    return (torch.ones(256),)


def _optimizer(parameters: "Iterable[nn.Parameter]") -> "Optimizer":
    from torch.optim import SGD

    return SGD(parameters, lr=0.001)


def _loss(name: str, fault: Planted, model: "nn.Module", inputs: "Tensor") -> "Tensor":
    from torch import distributed

    step, rank = _calls[name], distributed.get_rank()
    _calls[name] += 1
    if step == fault.step and rank == fault.rank:
        if FAULTS_LOG in os.environ and fault.kind != HEALTHY:
            with open(os.environ[FAULTS_LOG], "a") as log:  # noqa: PTH123
                log.write(f"{fault.kind} {time.time()}\n")
        KINDS[fault.kind].act()
    loss: Tensor = model(inputs).square().mean()
    return loss


def _raise(error: BaseException) -> None:
    raise error


def _spin() -> None:
    while True:
        pass


def _torch() -> Any:
    """Any: what poisons of torch set is not typed."""
    import torch

    return torch


def _signal_self(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)  # a signal that a process sends itself may come a little later


def _print_much() -> None:
    for _ in range(200):
        os.write(1, b"x" * 99_999 + b"\n")


def _print_much_and_raise() -> None:
    _print_much()
    raise ValueError("after much output")


def _another_collective() -> None:
    from torch import distributed

    distributed.barrier()


def _destroy_the_group() -> None:
    from torch import distributed

    distributed.destroy_process_group()
    distributed.get_rank()  # raises


def _leave_a_child(*program: str) -> None:
    _kept.append(subprocess.Popen([sys.executable, "-c", *program], stdout=subprocess.DEVNULL))


def _lower_the_limit_of_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))


def _global_hook() -> None:
    _torch().nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: time.sleep(0.001))


def _more_threads() -> None:
    _torch().set_num_threads(_torch().get_num_threads() + 3)


def _slow_gc() -> None:
    import gc

    gc.set_threshold(1, 1, 1)


def _no_gc() -> None:
    import gc

    gc.disable()


_AT = r"rank {rank} .*at step {step} \(forward\)"
KINDS: dict[str, Kind] = {
    HEALTHY: Kind(act=lambda: None),
    # Faults that fail their test.
    "raises": Kind(
        act=lambda: _raise(ValueError("the label is out of range")),
        fails=r"rank {rank} raised ValueError: the label is out of range at step {step} \(forward\)",
    ),
    "raises_hostile": Kind(
        act=lambda: _raise(ValueError("\x1b[31m\r\nrank 7 died of SIGKILL")), fails=r"rank {rank} raised ValueError"
    ),
    "raises_like_gloo": Kind(
        act=lambda: _raise(ValueError("connection closed by peer: gloo/ NCCL error")),
        fails=r"rank {rank} raised ValueError: connection closed",
    ),
    "oom": Kind(act=lambda: _raise(MemoryError()), fails=r"rank {rank} raised MemoryError"),
    "imports": Kind(
        act=lambda: __import__("no_such_module"), fails=r"rank {rank} raised ModuleNotFoundError.*no_such_module"
    ),
    "sys_exit": Kind(act=lambda: sys.exit(3), fails=r"rank {rank} raised SystemExit"),
    "killed": Kind(act=lambda: _signal_self(signal.SIGKILL), fails=_AT.replace(".*", "died of SIGKILL ")),
    "segfault": Kind(act=lambda: _signal_self(signal.SIGSEGV), fails=_AT.replace(".*", "died of SIGSEGV ")),
    "aborts": Kind(act=lambda: _signal_self(signal.SIGABRT), fails=_AT.replace(".*", "died of SIGABRT ")),
    "terminated": Kind(act=lambda: _signal_self(signal.SIGTERM), fails=_AT.replace(".*", "died of SIGTERM ")),
    "exits": Kind(act=lambda: os._exit(3), fails=_AT.replace(".*", "exited with code 3 ")),
    "exits_with_0": Kind(act=lambda: os._exit(0), fails=_AT.replace(".*", "exited with code 0 ")),
    "stopped": Kind(act=lambda: _signal_self(signal.SIGSTOP), fails=r"rank {rank} is stopped"),
    "hangs": Kind(act=lambda: threading.Event().wait(), fails=r"rank {rank} has made no progress for"),
    "spins": Kind(act=_spin, fails=r"rank {rank} has made no progress for"),
    "other_collective": Kind(act=_another_collective, fails=r"rank \d .*(waited for a collective|gloo)"),
    "forks": Kind(act=os.fork, fails=r"rank {rank} .*forked"),
    "destroys_the_group": Kind(act=_destroy_the_group, fails=r"rank {rank} raised ValueError: Default process group"),
    "prints_and_raises": Kind(act=_print_much_and_raise, fails=r"rank {rank} raised ValueError: after much output"),
    "closes_files": Kind(act=lambda: os.closerange(3, 1000), fails=r"rank \d "),
    # What a process keeps.
    "anomaly_mode": Kind(act=lambda: _torch().autograd.set_detect_anomaly(True), says="torch.is_anomaly_enabled"),
    "default_dtype": Kind(act=lambda: _torch().set_default_dtype(_torch().float64), says="torch.get_default_dtype"),
    "global_hook": Kind(act=_global_hook, says="global module hooks"),
    "busy_thread": Kind(
        act=lambda: threading.Thread(target=_spin, name="spinner", daemon=True).start(), says="threads left running"
    ),
    "busy_child": Kind(act=lambda: _leave_a_child("while True: pass"), says="child processes left running"),
    "idle_child": Kind(act=lambda: _leave_a_child("import time; time.sleep(1000)")),
    "threads": Kind(act=_more_threads, says="torch.get_num_threads"),
    "deterministic": Kind(
        act=lambda: _torch().use_deterministic_algorithms(True), says="torch.are_deterministic_algorithms_enabled"
    ),
    "matmul_precision": Kind(
        act=lambda: _torch().set_float32_matmul_precision("medium"), says="torch.get_float32_matmul_precision"
    ),
    "tf32": Kind(act=lambda: setattr(_torch().backends.cudnn, "allow_tf32", False), says="cudnn.allow_tf32"),
    "flush_denormal": Kind(act=lambda: _torch().set_flush_denormal(True), says="torch.set_flush_denormal"),
    "variable": Kind(act=lambda: os.environ.update(SECRET="hunter2"), says="environment variable SECRET set"),
    "signal_handler": Kind(act=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN), says="handlers of signals"),
    "umask": Kind(act=lambda: os.umask(0o77), says="umask"),
    "working_directory": Kind(act=lambda: os.chdir("/"), says="working directory"),
    "niceness": Kind(act=lambda: os.nice(5), says="niceness"),
    "affinity": Kind(act=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]), says="CPU affinity"),
    "limit_of_files": Kind(act=_lower_the_limit_of_files, says="resource limits"),
    "torchs_function": Kind(
        act=lambda: setattr(_torch(), "relu", lambda tensor: tensor), says="function torch.relu replaced"
    ),
    "profile_function": Kind(act=lambda: sys.setprofile(lambda *_: None), says="sys.getprofile"),
    "slow_gc": Kind(act=_slow_gc, says="gc.get_threshold"),
    "no_gc": Kind(act=_no_gc, says="gc.isenabled"),
    "socket_timeout": Kind(act=lambda: socket.setdefaulttimeout(0.001), says="socket.getdefaulttimeout"),
    "search_path": Kind(act=lambda: sys.path.insert(0, "/nowhere"), says="sys.path"),
    # What changes nothing for others.
    "prints_much": Kind(act=_print_much),
    "leaks_memory": Kind(act=lambda: _kept.append(bytearray(200_000_000))),
    "late": Kind(act=lambda: time.sleep(2)),
}
