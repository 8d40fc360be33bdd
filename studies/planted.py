"""Workloads with a slowdown planted in one of two builds, to test what ``--against`` finds.

``studies.planted:vit_l_32__900us__2``: vit_l_32 with the plant ``900us``, second copy. The plants:
``900us``: an additional kernel of 900 microseconds in each forward pass. 0us plants nothing (an A/A test).
``400mb``: DDP gets ``bucket_cap_mb=400``, whatever the config says.
``4ctas``: NCCL may use 4 SMs. NCCL reads its variable when communicators form, before a rank imports the workload. So
start pytest with NCCL_MAX_CTAS=4, which holds for all tests of the run; the workload only raises an error without it.

    python -m studies.planted FILE                     writes the other build: this Python, without the plants
    pytest perf --against FILE -k "throughput and ddp_default" --benchmark-json RUN.json \
        --workload studies.planted:vit_l_32__0us__1 --workload studies.planted:vit_l_32__900us__1
    python -m studies.calibration_measured RUN.json    shows what was found

To add a plant, add its unit to ``_PLANTING``.
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
    """A planted slowdown. unit: ``us``, ``mb`` or ``ctas``."""

    unit: str
    size: int

    @property
    def name(self) -> str:
        """``900 us``"""
        return f"{self.size} {self.unit}"


def plant_of(name: str) -> Plant | None:
    """Plant in the name of a workload; None for any other name."""
    match = _NAME.fullmatch(name)
    return Plant(unit=match["unit"], size=int(match["size"])) if match else None


def __getattr__(name: str) -> Workload:
    match, plant = _NAME.fullmatch(name), plant_of(name)
    if match is None or plant is None:
        raise AttributeError(name)
    workload = replace(find_workload(match["workload"]), name=name)
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
    """Model -> the ``bucket_cap_mb`` that DDP uses for it; the first call patches DDP."""
    from torch.nn.parallel import DistributedDataParallel

    caps: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
    wrap = DistributedDataParallel.__init__

    @functools.wraps(wrap)
    def wrapping(self: Any, module: "nn.Module", *arguments: Any, **options: Any) -> None:
        # Any: all arguments of DDP.
        if module in caps:
            options["bucket_cap_mb"] = caps[module]
        wrap(self, module, *arguments, **options)

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
    """Run a kernel of one thread on the stream of the forward pass; without a GPU, keep a core busy."""
    if device.type == "cuda":
        import torch

        torch.cuda._sleep(round(seconds * _cycles_per_s()))
        return
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@functools.cache
def _cycles_per_s() -> float:
    """Rate of the clock that ``_sleep`` counts, measured with a kernel of some milliseconds."""
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
