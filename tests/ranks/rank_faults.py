"""Faults of a rank, one function each: rank 1 fails, mostly while rank 0 waits for it in an all-reduce.

The functions run inside ranks, named like ``tests.ranks.rank_faults:sleeps``. To add a fault, write its function here
and describe it in ANNOUNCED or SILENT of test_rank_sets.py.
"""

import importlib
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from fixtures.launch.channel import IMPORTING, LATE_IMPORT, Channel
from fixtures.launch.protocol import REQUESTS, CannotRun, to_json
from fixtures.ranks.context import RankContext


def pid(ctx: RankContext) -> int:
    """No fault: return the process id."""
    return os.getpid()


def has_imported(ctx: RankContext, module: str) -> bool:
    """No fault: return True if this process has imported the module."""
    return module in sys.modules


def total(ctx: RankContext) -> float:
    """No fault: return the sum of 1, 2, ... over the ranks of the world."""
    mine = torch.tensor([1.0 + ctx.rank])
    distributed.all_reduce(mine)
    return mine.item()


def breaks_its_process(ctx: RankContext) -> None:
    """Rank 1 cannot run this and is unusable, while rank 0 waits for it."""
    if ctx.rank == 1:
        raise CannotRun("a graph cannot capture it", broken=True)
    distributed.all_reduce(torch.zeros(1))


class _Model:
    """Stands for what a launch builds."""


_built: weakref.ref[_Model] | None = None


def cannot_run_what_it_built(ctx: RankContext) -> None:
    """No fault: the config does not support the model."""
    global _built
    _built = weakref.ref(_Model())
    raise CannotRun("the config does not support the model")


def still_has_what_it_built(ctx: RankContext) -> bool:
    """No fault: return True if what an earlier call built is still in memory."""
    assert _built is not None
    return _built() is not None


def five_megabytes(ctx: RankContext) -> str:
    """No fault: return a value that is too large for one write to a socket."""
    return str(ctx.rank) * 5_000_000


def starts_a_daemon(ctx: RankContext) -> int:
    """No fault: start a process that nothing ties to this rank, and return its process id."""
    options = "env={}, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    program = f"import subprocess; print(subprocess.Popen(['sleep', '1000'], {options}).pid)"
    started = subprocess.run(
        [sys.executable, "-c", program], env={}, capture_output=True, text=True, check=True, start_new_session=True
    )
    return int(started.stdout)


def imports_for_long(ctx: RankContext) -> None:
    """No fault: a machine so busy that the first optimizer's import takes 4 s."""
    ctx.beat(-1, IMPORTING)
    time.sleep(4)
    ctx.beat(-1, "building the optimizer")


def what_an_optimizer_imports(ctx: RankContext) -> list[str]:
    """No fault: return the packages of torch that an optimizer imports after LATE_IMPORT."""
    importlib.import_module(LATE_IMPORT)
    before = set(sys.modules)
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    return sorted(name for name in sys.modules.keys() - before if name.startswith("torch"))


def raises_in_step_7(ctx: RankContext) -> None:
    """Rank 1 raises in the backward pass of step 7, and leaves a running child process."""
    if ctx.rank == 1:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    for step in range(8):
        ctx.beat(step, "backward")
        if step == 7 and ctx.rank == 1:
            raise ValueError("the gradients are gone")
        total(ctx)


def runs_out_of_memory(ctx: RankContext) -> None:
    if ctx.rank == 1:
        raise MemoryError


def imports_what_is_not_there(ctx: RankContext) -> None:
    if ctx.rank == 1:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def answers_what_json_cannot_carry(ctx: RankContext) -> object:
    return object() if ctx.rank == 1 else None


def leaves_a_worker_behind(ctx: RankContext) -> None:
    """Rank 1 dies, and its forked child keeps the channel open, like a DataLoader's worker."""
    if ctx.rank == 1:
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(3)
    total(ctx)


def is_killed_in_mid_frame(ctx: RankContext) -> None:
    """Rank 1 dies after sending half of an answer."""
    if ctx.rank == 1:
        os.write(_channel().fileno(), b"\x40\x00\x00\x00{")
        os.kill(os.getpid(), signal.SIGKILL)
    total(ctx)


def segfaults(ctx: RankContext) -> None:
    if ctx.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    total(ctx)


def answers_with_a_late_frame(ctx: RankContext) -> None:
    """Rank 1 sends an answer to an earlier call before the answer to this call."""
    if ctx.rank == 1:
        _channel().send({"sequence": 1, "value": "late"})
    total(ctx)


def is_stopped(ctx: RankContext) -> None:
    if ctx.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    total(ctx)


def sleeps(ctx: RankContext) -> None:
    if ctx.rank == 1:
        ctx.beat(4, "forward")
        time.sleep(1000)
    total(ctx)


def calls_another_collective(ctx: RankContext) -> None:
    """Rank 1 is in a barrier, one step behind rank 0; both hang."""
    if ctx.rank == 1:
        ctx.beat(4, "optimizer step")
        distributed.barrier()
    ctx.beat(5, "backward")
    total(ctx)


def gathers_in_another_order(ctx: RankContext) -> None:
    """Rank 1 gathers little and then much, rank 0 much and then little: gloo ends the process that gets too much."""
    for elements in (10, 10_000) if ctx.rank == 1 else (10_000, 10):
        mine = torch.zeros(elements)
        distributed.all_gather([torch.empty_like(mine) for _ in range(distributed.get_world_size())], mine)


def _channel() -> Channel:
    """Return this rank's end of the channel, from the frame of its main loop."""
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    channel: Channel = frame.f_locals["channel"]
    return channel


# Any: JSON.
def tried(ctx: RankContext, *, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call ``module:function`` as ranks do. Returns its ``value``, or ``NAME: MESSAGE`` of an ``error``; else None."""
    module, _, name = function.partition(":")
    called, request = getattr(importlib.import_module(module), name), REQUESTS.get(function)
    try:
        value = called(ctx, **arguments) if request is None else called(ctx, request(**arguments))
    except Exception as error:
        return {"value": None, "error": f"{type(error).__name__}: {error}"}
    return {"value": to_json(value), "error": None}


def at_start(ctx: RankContext) -> str:
    """Return the variables that the process was started with, each with a null character behind it."""
    return Path("/proc/self/environ").read_text()


def variable(ctx: RankContext, *, name: str) -> str | None:
    return os.environ.get(name)
