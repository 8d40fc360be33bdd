"""Code inside a rank for test_pasted_lines.py: a measured config, and the lines for users to paste."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.context import RankContext
from fixtures.ranks.ddp_settings import ddp_settings
from fixtures.ranks.wrapping import wrap

# Past the first compressed step of every hook.
_STEPS = 6

Registered = tuple[Callable[..., Any], Any]


def measured_and_pasted(ctx: RankContext, *, config: str, world: str) -> dict[str, dict[str, Any]]:
    """Return ``measured`` and ``pasted``: the settings, hook, state, and gradients after some steps of each."""
    with _restored():
        with ddp_settings(CONFIGS[config]):
            wrapped = wrap(_model(), WORKLOADS["vit_tiny"], CONFIGS[config], parse_world(world), ctx.device)
            ours = wrapped.module
            if wrapped.in_backward is not None:
                wrapped.in_backward.optimizer = _optimizer(ours)
            assert isinstance(ours, DistributedDataParallel)
            measured = _described(ours, [(_unwrapped(hook), state) for hook, state in ours._comm_hooks], ctx.rank)
        theirs, registered = _paste(CONFIGS[config].lines(), ctx.rank)
        return {"measured": measured, "pasted": _described(theirs, registered, ctx.rank)}


@contextmanager
def _restored() -> Iterator[None]:
    """Restore what pasted lines set in the process."""
    variables, first = dict(os.environ), _first_bucket_bytes()
    try:
        yield
    finally:
        distributed._DEFAULT_FIRST_BUCKET_BYTES = first  # type: ignore[attr-defined]
        for name in set(os.environ) - set(variables):
            del os.environ[name]
        os.environ.update(variables)


def _first_bucket_bytes() -> int:
    first: int = distributed._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]  # not in __all__
    return first


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 48))


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _paste(lines: tuple[str, ...], local_rank: int) -> tuple[DistributedDataParallel, list[Registered]]:
    """Execute the lines on ``model``, adapted to the CPU: DDP takes no device, and some hooks need a wrapper."""
    registered: list[Registered] = []

    def register(model: DistributedDataParallel, state: Any, hook: Callable[..., Any]) -> None:
        registered.append((hook, state))
        model.register_comm_hook(state, _one_after_another(hook))

    source = "\n".join(lines)
    if "device_ids=[local_rank]" not in source:
        raise AssertionError(f"the lines have no device_ids:\n{source}")
    source = source.replace(", device_ids=[local_rank]", "").replace("model.register_comm_hook(", "register(model, ")
    model = _model()
    names: dict[str, Any] = {
        "model": model,
        "optimizer": _optimizer(model),
        "local_rank": local_rank,
        "register": register,
    }
    exec(source, names)
    return names["model"], registered


def _one_after_another(hook: Callable[..., Any]) -> Callable[[Any, GradBucket], Future[Tensor]]:
    """Wrap a hook under another name to pass DDP's check for bf16, and wait for its collectives (pytorch#48478)."""

    def renamed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        done: Future[Tensor] = Future()
        done.set_result(hook(state, bucket).wait())
        return done

    return renamed


def _unwrapped(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return the hook inside the wrapper that the suite registers on gloo."""
    if hook.__module__ != wrap.__module__:
        raise AssertionError(f"the suite registered {hook.__module__}.{hook.__qualname__} without a wrapper")
    (inner,) = _functions_in(hook)
    return inner


def _functions_in(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions in a closure."""
    return [cell.cell_contents for cell in function.__closure__ or () if callable(cell.cell_contents)]


def _name(hook: Callable[..., Any]) -> str:
    """Return ``module.function``, with the wrapped functions in brackets."""
    inner = [_name(function) for function in _functions_in(hook)]
    return f"{hook.__module__}.{hook.__qualname__}" + (f"({', '.join(inner)})" if inner else "")


def _described(ddp: DistributedDataParallel, hooks: list[Registered], rank: int) -> dict[str, Any]:
    hook, state = hooks[0] if hooks else (None, None)
    settings = {
        "hooks": len(hooks),
        "hook": hook and _name(hook),
        # The constructor arguments, because no step has run yet.
        "state": state and dict(inspect.getmembers(state, lambda value: isinstance(value, bool | int | float))),
        "bucket_bytes_cap": ddp.bucket_bytes_cap,
        "static_graph": ddp.static_graph,
        "gradient_as_bucket_view": ddp.gradient_as_bucket_view,
        "find_unused_parameters": ddp.find_unused_parameters,
        "first_bucket_bytes": _first_bucket_bytes(),
        "variables": {
            name: value
            for name, value in os.environ.items()
            if name in ("DDP_SET_LAST_BUCKET_CAP", "DDP_DISABLE_COMM_MEM")
        },
        "builtin": ddp._get_ddp_logging_data().get("comm_hook") if not hooks else None,
        "flags": [name for name in ("skip_all_reduce_unused_params", "batched_grad_copy") if getattr(ddp, name, False)],
        "caps": getattr(ddp, "bucket_bytes_cap_list", []),
    }
    generator = torch.Generator().manual_seed(rank)
    for _ in range(_STEPS):
        ddp.zero_grad()
        ddp(torch.randn(8, 48, generator=generator)).square().mean().backward()
    return {
        "settings": settings,
        "compressed": bool(getattr(state, "p_memory_dict", None)),
        "gradients": [p.grad.flatten().tolist() for p in ddp.parameters() if p.grad is not None],
    }
