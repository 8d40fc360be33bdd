"""What can go wrong in a rank, one function each: rank 1 goes wrong, mostly while rank 0 waits for it in an all-reduce.

They run inside ranks, named ``tests.rank_faults:sleeps``. To add one, write it here and describe it in ANNOUNCED or
SILENT of test_rank_sets.py.
"""

import os
import signal
import subprocess
import sys
import time

import torch
from torch import distributed

from fixtures.ranks.channel import Channel
from fixtures.ranks.rank import Here


def pid(here: Here) -> int:
    """No fault: which process this is."""
    return os.getpid()


def knows_pytest(here: Here) -> bool:
    """No fault: whether this process has imported it."""
    return "_pytest" in sys.modules


def total(here: Here) -> float:
    """No fault: the sum of 1, 2, ... over the ranks of the world."""
    mine = torch.tensor([1.0 + here.rank])
    distributed.all_reduce(mine)
    return mine.item()


def five_megabytes(here: Here) -> str:
    """No fault: an answer that no socket takes at once."""
    return str(here.rank) * 5_000_000


def raises_in_step_7(here: Here) -> None:
    """Rank 1 raises in the backward pass of step 7, and has started a child that lives on."""
    if here.rank == 1:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    for step in range(8):
        here.beat(step, "backward")
        if step == 7 and here.rank == 1:
            raise ValueError("the gradients are gone")
        total(here)


def runs_out_of_memory(here: Here) -> None:
    if here.rank == 1:
        raise MemoryError


def imports_what_is_not_there(here: Here) -> None:
    if here.rank == 1:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def answers_what_json_cannot_carry(here: Here) -> object:
    return object() if here.rank == 1 else None


def leaves_a_worker_behind(here: Here) -> None:
    """Dies with a forked child that keeps its channel open, as a DataLoader's workers do."""
    if here.rank == 1:
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(3)
    total(here)


def is_killed_in_mid_frame(here: Here) -> None:
    """The first half of an answer has left when rank 1 dies."""
    if here.rank == 1:
        os.write(_channel().fileno(), b"\x40\x00\x00\x00{")
        os.kill(os.getpid(), signal.SIGKILL)
    total(here)


def segfaults(here: Here) -> None:
    if here.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    total(here)


def answers_with_a_late_frame(here: Here) -> None:
    """The answer to an earlier call arrives before that to this one."""
    if here.rank == 1:
        _channel().send({"sequence": 1, "value": "late"})
    total(here)


def is_stopped(here: Here) -> None:
    if here.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    total(here)


def sleeps(here: Here) -> None:
    if here.rank == 1:
        here.beat(4, "forward")
        time.sleep(1000)
    total(here)


def calls_another_collective(here: Here) -> None:
    """Rank 1 is a step behind and in a barrier; both hang."""
    if here.rank == 1:
        here.beat(4, "optimizer step")
        distributed.barrier()
    here.beat(5, "backward")
    total(here)


def _channel() -> Channel:
    """This rank's end, from its main loop."""
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    channel: Channel = frame.f_locals["channel"]
    return channel
