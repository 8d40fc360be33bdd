"""Workloads with a slowdown or other work planted in one of two builds, to test what ``--against`` and ``--work`` find.

``studies.planted:vit_l_32__900us__2``: vit_l_32 with the plant ``900us``, second copy. The plants:
``900us``: an additional kernel of 900 microseconds in each forward pass. 0us plants nothing (an A/A test).
``400mb``: DDP gets ``bucket_cap_mb=400``, whatever the config says.
``4ctas``: NCCL may use 4 SMs. NCCL reads its variable when communicators form, before a rank imports the workload. So
start pytest with NCCL_MAX_CTAS=4, which holds for all tests of the run; the workload only raises an error without it.
``1cast``, ``1item`` and others of ``_DOING``, ``_OF_MODEL`` and ``_OF_OPTIMIZER``: so often in each step.

    python -m studies.planted --work [WORKLOAD]        plants other work on this machine; a table of what is named, in
                                                       one or two minutes. Default: vit_tiny
    python -m studies.planted FILE                     writes the other build: this Python, without the plants
    pytest perf --against FILE -k "throughput and ddp_default" --benchmark-json RUN.json \
        --workload studies.planted:vit_l_32__0us__1 --workload studies.planted:vit_l_32__900us__1
    python -m studies.calibration_measured RUN.json    shows what was found

To add a plant, add its unit to ``_PLANTING``; other work of a step, to ``_DOING``.
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

from fixtures.launch.protocol import TrainRequest
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.workloads import Workload, find_workload
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.differences import changed_algorithms
from fixtures.session.explanation import PROFILED_STEPS, SETTLED_STEPS
from fixtures.trace.breakdown import over_ranks
from fixtures.trace.profile import Profile, work_changes, work_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

UNPLANTED = "DDP_PERF_TESTS_UNPLANTED"
MAX_CTAS = "NCCL_MAX_CTAS"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Plant:
    """A planted slowdown, or other work. unit: ``us``, ``mb``, ``ctas``, ``cast``, ..."""

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


# Any: torch and its functional modules, which only ranks import.
def _torch() -> Any:
    import torch

    return torch


def _reduced(tensor: "Tensor") -> None:
    _torch().distributed.all_reduce(tensor)


def _gathered(tensor: "Tensor") -> None:
    distributed = _torch().distributed
    distributed.all_gather([tensor.clone() for _ in range(distributed.get_world_size())], tensor)


# Other work of a step, with its loss and its first input.
_DOING: dict[str, Callable[["Tensor", "Tensor"], object]] = {
    "copy": lambda loss, x: x.clone(),
    "layout": lambda loss, x: x.transpose(-1, -2).contiguous(),
    "cast": lambda loss, x: x.double(),
    "item": lambda loss, x: loss.item(),
    "finite": lambda loss, x: _torch().isfinite(loss).all(),
    "dropout": lambda loss, x: _torch().nn.functional.dropout(x, 0.1),
    "zeros": lambda loss, x: _torch().zeros_like(x),
    "product": lambda loss, x: x.flatten(1) @ x.flatten(1).T,
    "metric": lambda loss, x: x.flatten(1).argmax(1),
    "norm": lambda loss, x: x.norm(),
    "sort": lambda loss, x: x.flatten(1)[:, :64].sort(),
    "noise": lambda loss, x: _torch().randn_like(x),
    "upload": lambda loss, x: _torch().tensor([1.0]).to(x.device) * 2,
    "reduce": lambda loss, x: _reduced(loss.detach().clone().reshape(1)),
    "gather": lambda loss, x: _gathered(loss.detach().clone().reshape(1)),
}
_ON_GPUS: dict[str, Callable[["Tensor", "Tensor"], object]] = {
    "sync": lambda loss, x: _torch().cuda.synchronize(),
    "download": lambda loss, x: loss.detach().to("cpu", non_blocking=True),
}


def _also_doing(workload: Workload, times: int, *, work: Callable[["Tensor", "Tensor"], object]) -> Workload:
    def loss(model: "nn.Module", *batch: "Tensor") -> "Tensor":
        result = workload.loss(model, *batch)
        for _ in range(times):
            work(result, batch[0])
        return result

    return replace(workload, loss=loss)


def _with_a_buffer(workload: Workload, elements: int) -> Workload:
    """DDP broadcasts it before each forward pass."""

    def model() -> "nn.Module":
        built = workload.model()
        built.register_buffer("planted", _torch().zeros(elements))
        return built

    return replace(workload, model=model)


def _with_plain_attention(workload: Workload, _: int) -> Workload:
    def loss(model: "nn.Module", *batch: "Tensor") -> "Tensor":
        attention = _torch().nn.attention
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            return workload.loss(model, *batch)

    return replace(workload, loss=loss)


def _with_plain_updates(workload: Workload, _: int) -> Workload:
    """On a GPU one parameter after the other, on the CPU all together: not as torch does."""

    def optimizer(parameters: Any) -> Any:
        built: Any = workload.optimizer(parameters)
        for group in built.param_groups:
            group["foreach"], group["fused"] = not _torch().cuda.is_available(), False
        return built

    return replace(workload, optimizer=optimizer)


def _with_unused(workload: Workload, _: int) -> Workload:
    """DDP agrees in each step on which parameters are used."""
    return replace(workload, find_unused_parameters=True)


_PLANTING: dict[str, Callable[[Workload, int], Workload]] = {
    "us": _with_a_busy_kernel,
    "mb": _with_a_bucket,
    "ctas": _with_few_sms_for_nccl,
    "buffer": _with_a_buffer,
    "attention": _with_plain_attention,
    "update": _with_plain_updates,
    "unused": _with_unused,
    **{name: functools.partial(_also_doing, work=work) for name, work in (_DOING | _ON_GPUS).items()},
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


def _write_build(file: Path) -> None:
    file.write_text(f'#!/bin/sh\nexec env -u {MAX_CTAS} {UNPLANTED}=1 "{sys.executable}" "$@"\n')
    file.chmod(0o755)


def _plant_work(workload: str) -> None:
    """Profile a launch of each plant of other work, and print what differs from the work of a launch without one."""
    gpus = _torch().cuda.device_count()
    world = parse_world("2gpu" if gpus else "2cpu")
    plants = ["0us", "0us", "2mb", "1buffer", "1attention", "1update", "1unused", *(f"1{name}" for name in _DOING)]
    plants += [f"1{name}" for name in _ON_GPUS] if gpus else []
    sets = RankSets(launches=1, size=2, on_gpu=gpus > 0, rank_timeout_s=120)

    def profiled(plant: str, **variables: str) -> Profile:
        ranks = sets.profiled(INTERCONNECTS["native"], tuple(variables.items()))
        name = f"studies.planted:{workload}__{plant}__1"
        request = TrainRequest(
            workload=name,
            config="ddp_default",
            world=world.name,
            steps=1,
            warmup=SETTLED_STEPS,
            profile=PROFILED_STEPS,
        )
        results = ranks.ask(world, request, doing=plant)
        breakdown = over_ranks([one.breakdown for one in results if one.breakdown is not None])
        choices = results[0].nccl_choices
        return Profile(
            work=work_of(breakdown, results[0].issued_collectives),
            algorithms_percent=None if choices is None else choices.algorithms_percent,
        )

    def show(plant: str, now: Profile) -> None:
        assert without.work is not None, "it was profiled"
        assert now.work is not None, "it was profiled"
        changes = work_changes(without.work, now.work)
        named = [*changes.lines(), *changed_algorithms(without, now)]
        differ = f"steps differ in {', '.join(changes.varying)}" if changes.varying else ""
        print(f"| {plant} | {', '.join(named) or 'nothing'} | {'; '.join((*changes.same, differ))} |", flush=True)

    began_s = time.monotonic()
    try:
        without = profiled("0us")
        print("| planted | named | remarks |\n|---|---|---|", flush=True)
        for plant in plants:
            show(plant, profiled(plant))
        if gpus:
            show("NCCL_ALGO=allreduce:tree", profiled("0us", NCCL_ALGO="allreduce:tree"))
    finally:
        sets.close()
    print(f"\n{len(plants) + 1 + (gpus > 0)} launches, {time.monotonic() - began_s:.0f} s; 0us plants nothing")


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        _plant_work(*(sys.argv[2:] or ["vit_tiny"]))
    else:
        _write_build(Path(sys.argv[1]))
