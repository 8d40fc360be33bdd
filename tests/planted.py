"""Workloads that are planted a slowdown in one of two builds, to see what ``--against`` finds.

``tests.planted:vit_l_32__900us__2``: vit_l_32 with this plant, the second copy of that name.
``900us``: a kernel of 900 microseconds more in each forward pass. 0us plants nothing: such pairs are of the same code
(A/A).
``400mb``: DDP is given ``bucket_cap_mb=400``, whatever the config says.
``4ctas``: NCCL may use 4 SMs. NCCL reads that when communicators form, which is before a rank imports the workload. So
it is set where pytest is started, NCCL_MAX_CTAS=4, for all tests of the run; the workload only says when it is missing.

    python -m tests.planted FILE                     writes the other build: this Python, without the plants
    pytest perf --against FILE -k "throughput and ddp_default" --benchmark-json RUN.json \
        --workload tests.planted:vit_l_32__0us__1 --workload tests.planted:vit_l_32__900us__1
    python -m tests.calibration_measured RUN.json    says what was found

To plant another thing, give its unit an entry in ``_PLANTING``.
"""

import functools
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fixtures.matrix.workloads import Workload, find_workload

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

UNPLANTED = "DDP_PERF_TESTS_UNPLANTED"
MAX_CTAS = "NCCL_MAX_CTAS"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Plant:
    """unit: ``us``, ``mb`` or ``ctas``."""

    unit: str
    size: int

    @property
    def name(self) -> str:
        """``900 us``"""
        return f"{self.size} {self.unit}"


def plant_of(name: str) -> Plant | None:
    """What a workload of this name is planted; None for any other name."""
    found = _NAME.fullmatch(name)
    return Plant(unit=found["unit"], size=int(found["size"])) if found else None


def __getattr__(name: str) -> Workload:
    found, plant = _NAME.fullmatch(name), plant_of(name)
    if found is None or plant is None:
        raise AttributeError(name)
    workload = replace(find_workload(found["workload"]), name=name)
    return workload if UNPLANTED in os.environ else _PLANTING[plant.unit](workload, plant.size)


def _with_a_busy_kernel(workload: Workload, us: int) -> Workload:
    def loss(model: "nn.Module", *batch: "Tensor") -> "Tensor":
        result = workload.loss(model, *batch)
        if us:
            _busy(result.device, us / 1e6)
        return result

    return replace(workload, loss=loss)


def _with_a_bucket(workload: Workload, mb: int) -> Workload:
    def model() -> "nn.Module":
        built = workload.model()
        _bucket_caps_mb()[built] = mb
        return built

    return replace(workload, model=model)


@functools.cache
def _bucket_caps_mb() -> "WeakKeyDictionary[nn.Module, int]":
    """Models that DDP gives another ``bucket_cap_mb`` from now on."""
    from torch.nn.parallel import DistributedDataParallel

    caps: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
    wrap = DistributedDataParallel.__init__

    def wrapping(self: Any, module: "nn.Module", *arguments: Any, **more: Any) -> None:
        # Any: all that DDP takes.
        if module in caps:
            more["bucket_cap_mb"] = caps[module]
        wrap(self, module, *arguments, **more)

    DistributedDataParallel.__init__ = wrapping  # type: ignore[method-assign]
    return caps


def _with_few_sms_for_nccl(workload: Workload, ctas: int) -> Workload:
    def model() -> "nn.Module":
        if os.environ.get(MAX_CTAS) != str(ctas):
            raise ValueError(
                f"{MAX_CTAS} is {os.environ.get(MAX_CTAS, 'unset')}: run {MAX_CTAS}={ctas} pytest perf ..."
            )
        return workload.model()

    return replace(workload, model=model)


_PLANTING: dict[str, Callable[[Workload, int], Workload]] = {
    "us": _with_a_busy_kernel,
    "mb": _with_a_bucket,
    "ctas": _with_few_sms_for_nccl,
}
_NAME = re.compile(rf"(?P<workload>\w+?)__(?P<size>\d+)(?P<unit>{'|'.join(_PLANTING)})__\d+")


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
    file.write_text(f'#!/bin/sh\nexec env -u {MAX_CTAS} {UNPLANTED}=1 "{sys.executable}" "$@"\n')
    file.chmod(0o755)
