"""Workloads that change their process for whatever is trained in it later, one change each.

``tests.ranks.poisons:umask`` is the workload with the poison of this name.

    python -m tests.ranks.poisons      takes all poisons in turn and prints, as JSON, what each changed in this process
"""

import builtins
import ctypes
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fixtures.matrix.workloads import Workload
from tests.workloads_for_tests import steady

_PR_SET_TIMERSLACK = 29
# FE_UPWARD of fenv.h.
_UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}


def _spin() -> None:
    while True:
        pass


def _poisons() -> dict[str, Callable[[], object]]:
    import torch
    from torch import nn

    return {
        "anomaly_mode": lambda: torch.autograd.set_detect_anomaly(True),
        "global_hook": lambda: nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: None),
        "busy_thread": lambda: threading.Thread(target=_spin, name="spinner", daemon=True).start(),
        "busy_child": lambda: subprocess.Popen([sys.executable, "-c", "while True: pass"]),
        "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        "deterministic": lambda: torch.use_deterministic_algorithms(True),
        "cudnn_benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
        "variable": lambda: os.environ.update(SECRET="hunter2"),
        "signal_handler": lambda: signal.signal(signal.SIGALRM, lambda number, frame: None),
        "umask": lambda: os.umask(0o77),
        "working_directory": lambda: os.chdir("/"),
        "niceness": lambda: os.nice(1),
        "affinity": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
        "torchs_function": lambda: setattr(torch, "relu", lambda tensor: tensor),
        "debug_level": lambda: torch.distributed.set_debug_level(  # type: ignore[attr-defined]
            torch.distributed.DebugLevel.DETAIL  # type: ignore[attr-defined]
        ),
        "saved_tensors": lambda: torch.autograd.graph.save_on_cpu().__enter__(),
        "backward_in_one_thread": lambda: torch.autograd.set_multithreading_enabled(False),
        "traced_memory": lambda: tracemalloc.start(),
        "collections_watched": lambda: gc.callbacks.append(lambda phase, info: None),
        "traced_threads": lambda: threading.setprofile(lambda frame, event, argument: None),
        "layers_forward": lambda: setattr(nn.Linear, "forward", lambda layer, values: values @ layer.weight.T),
        "builtin": lambda: setattr(builtins, "sum", lambda values, start=0: start),
        "timer_slack": lambda: ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 50_000_000),
        "default_device": lambda: torch.set_default_device("meta"),
        "default_dtype": lambda: torch.set_default_dtype(torch.float64),
        "rounding": lambda: ctypes.CDLL("libm.so.6").fesetround(_UPWARD[platform.machine()]),
        "nothing": lambda: None,
    }


# Any: the arguments of a loss.
def _poisoned_loss(poison: str, model: Any, *batch: Any) -> Any:
    from torch import distributed

    if poison not in _taken and distributed.get_rank() == 0:
        _taken.add(poison)
        _poisons()[poison]()
    return steady.loss(model, *batch)


_taken: set[str] = set()


def __getattr__(name: str) -> Workload:
    if name not in NAMES:
        raise AttributeError(name)
    return replace(steady, name=name, loss=partial(_poisoned_loss, name))


NAMES = {
    "anomaly_mode": "torch.is_anomaly_enabled(): False -> True",
    "global_hook": "global module hooks: {'_global_forward_pre_hooks': 0} -> {'_global_forward_pre_hooks': 1}",
    "busy_thread": "threads left running use",
    "busy_child": "child processes left running use",
    "threads": "torch.get_num_threads(): ",
    "deterministic": "torch.are_deterministic_algorithms_enabled(): False -> True",
    "cudnn_benchmark": "torch.backends.cudnn.benchmark: False -> True",
    "variable": "environment variable SECRET set",
    "signal_handler": "handlers of signals: ",
    "umask": "umask: ",
    "working_directory": "working directory: ",
    "niceness": "niceness: ",
    "affinity": "CPU affinity: ",
    "torchs_function": "function torch.relu replaced",
    "debug_level": "torch.distributed.get_debug_level(): ",
    "saved_tensors": "torch.autograd.graph.saved_tensors_hooks: ",
    "backward_in_one_thread": "torch.autograd.is_multithreading_enabled(): ",
    "traced_memory": "tracemalloc.is_tracing(): False -> True",
    "collections_watched": "gc.callbacks: 0 -> 1",
    "traced_threads": "threading.getprofile(): ",
    "layers_forward": "function torch.nn.Linear.forward replaced",
    "builtin": "function builtins.sum replaced",
    "timer_slack": "timer slack: ",
    "default_device": "torch.get_default_device(): cpu -> meta",
    "default_dtype": "torch.get_default_dtype(): torch.float32 -> torch.float64",
    "rounding": "rounding of floats: ",
    "nothing": "",
}


def _take_all() -> None:
    import torch

    from tests.ranks.process_state import ProcessWatch

    torch.get_default_device()  # torch makes it on the first call
    watch = ProcessWatch(torch.device("cpu"))
    poisons, found = _poisons(), {}
    for name in (name for name in NAMES if not name.startswith("busy_")):
        poisons[name]()
        found[name] = watch.changes()
    child: subprocess.Popen[bytes] = poisons["busy_child"]()  # type: ignore[assignment]
    found["busy_child"] = watch.changes()
    child.kill()
    child.wait()
    poisons["busy_thread"]()  # it would be found in each later one
    print(json.dumps({**found, "busy_thread": watch.changes()}))


if __name__ == "__main__":
    _take_all()
