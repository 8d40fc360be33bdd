"""Workloads whose steps are longer by a planted time in one of two builds, to see what ``--against`` finds.

``tests.planted:vit_l_32__900us__2``: vit_l_32 with 900 microseconds more in each forward pass, the second copy of that
name. 0us plants nothing: the pairs of such a test are of the same code (A/A).

    python -m tests.planted FILE                     writes the other build: this Python, without the plants
    pytest perf --against FILE -k "throughput and ddp_default" --benchmark-json RUN.json \
        --workload tests.planted:vit_l_32__0us__1 --workload tests.planted:vit_l_32__900us__1
    python -m tests.calibration_measured RUN.json    says what was found
"""

import functools
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fixtures.matrix.workloads import Workload, find_workload

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

UNPLANTED = "DDP_PERF_TESTS_UNPLANTED"
_NAME = re.compile(r"(?P<workload>\w+?)__(?P<us>\d+)us__\d+")


def planted_us(name: str) -> int | None:
    """The microseconds that a workload of this name has more; None for any other name."""
    found = _NAME.fullmatch(name)
    return int(found["us"]) if found else None


def __getattr__(name: str) -> Workload:
    found = _NAME.fullmatch(name)
    if found is None:
        raise AttributeError(name)
    workload, seconds = find_workload(found["workload"]), int(found["us"]) / 1e6

    def loss(model: "nn.Module", *batch: "Tensor") -> "Tensor":
        result = workload.loss(model, *batch)
        if seconds and UNPLANTED not in os.environ:
            _busy(result.device, seconds)
        return result

    return replace(workload, name=name, loss=loss)


def _busy(device: "torch.device", seconds: float) -> None:
    """A kernel of one thread on the stream of the forward pass, or a busy core."""
    if device.type == "cuda":
        import torch

        torch.cuda._sleep(round(seconds * _cycles_per_s()))
        return
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@functools.cache
def _cycles_per_s() -> float:
    """Of the clock that the kernel counts by, from one that lasts some milliseconds."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    cycles = 20_000_000
    for _ in range(2):
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
    return cycles / (float(begin.elapsed_time(end)) / 1e3)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(f'#!/bin/sh\nexec env {UNPLANTED}=1 "{sys.executable}" "$@"\n')
    file.chmod(0o755)
