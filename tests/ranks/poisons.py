"""Workloads that change their process for whatever is trained in it later.

``tests.ranks.poisons:variable`` is the workload with the poison of this name; WORKLOADS has all.
"""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fixtures.matrix.workloads import Workload
from tests.workloads_for_tests import steady


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
        "variable": lambda: os.environ.update(SECRET="hunter2"),
        "signal_handler": lambda: signal.signal(signal.SIGALRM, lambda number, frame: None),
        "working_directory": lambda: os.chdir("/"),
        "torchs_function": lambda: setattr(torch, "relu", lambda tensor: tensor),
        "default_device": lambda: torch.set_default_device("meta"),
        "default_dtype": lambda: torch.set_default_dtype(torch.float64),
    }


# Any: the arguments of a loss.
def _poisoned_loss(poisons: tuple[str, ...], model: Any, *batch: Any) -> Any:
    from torch import distributed

    for poison in poisons if distributed.get_rank() == 0 else ():
        if poison not in _taken:
            _taken.add(poison)
            _poisons()[poison]()
    return steady.loss(model, *batch)


_taken: set[str] = set()


def __getattr__(name: str) -> Workload:
    if name not in WORKLOADS:
        raise AttributeError(name)
    return replace(steady, name=name, loss=partial(_poisoned_loss, WORKLOADS[name]))


# Poison -> the beginning of the line that tells of it.
NAMES = {
    "anomaly_mode": "torch.is_anomaly_enabled(): False -> True",
    "global_hook": "global module hooks: ",
    "busy_thread": "threads left running use",
    "variable": "environment: ",
    "signal_handler": "handlers of signals: ",
    "working_directory": "working directory: ",
    "torchs_function": "function torch.relu: ",
    "default_device": "torch.get_default_device(): cpu -> meta",
    "default_dtype": "torch.get_default_dtype(): torch.float32 -> torch.float64",
}
# Workload -> its poisons. ``several`` has those of which none changes what another does.
WORKLOADS = {
    **{name: (name,) for name in NAMES},
    "several": tuple(name for name in NAMES if not name.startswith("default_")),
}
