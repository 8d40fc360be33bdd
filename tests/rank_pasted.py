"""Inside a rank: a config as measured beside the lines that a user would paste."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.rank import Here
from fixtures.ranks.wrapping import wrap

# Past the first compressed step of every hook.
_STEPS = 6

Registered = tuple[Callable[..., Any], Any]


def measured_and_pasted(here: Here, *, config: str, world: str) -> dict[str, dict[str, Any]]:
    """``measured`` and ``pasted``: each one's settings, hook and state, and its gradients after some steps."""
    ours = wrap(_model(), WORKLOADS["vit_tiny"], CONFIGS[config], parse_world(world), here.device).module
    assert isinstance(ours, DistributedDataParallel)
    theirs, registered = _paste(CONFIGS[config].lines(), here.rank)
    return {
        "measured": _described(ours, [(_unwrapped(hook), state) for hook, state in ours._comm_hooks], here.rank),
        "pasted": _described(theirs, registered, here.rank),
    }


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 48))


def _paste(lines: tuple[str, ...], local_rank: int) -> tuple[DistributedDataParallel, list[Registered]]:
    """What the lines make of ``model``. On the CPU DDP takes no device, and not every hook runs as it is."""
    registered: list[Registered] = []

    def register(model: DistributedDataParallel, state: Any, hook: Callable[..., Any]) -> None:
        registered.append((hook, state))
        model.register_comm_hook(state, _one_after_another(hook))

    source = "\n".join(lines)
    if "device_ids=[local_rank]" not in source:
        raise AssertionError(f"the lines do not say which device they are for:\n{source}")
    source = source.replace(", device_ids=[local_rank]", "").replace("model.register_comm_hook(", "register(model, ")
    names: dict[str, Any] = {"model": _model(), "local_rank": local_rank, "register": register}
    exec(source, names)
    return names["model"], registered


def _one_after_another(hook: Callable[..., Any]) -> Callable[[Any, GradBucket], Future[Tensor]]:
    """Under another name, which passes DDP's check for bf16, and with no collective left open (pytorch#48478)."""

    def renamed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        done: Future[Tensor] = Future()
        done.set_result(hook(state, bucket).wait())
        return done

    return renamed


def _unwrapped(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook inside the one that the suite registers on gloo."""
    if hook.__module__ != wrap.__module__:
        raise AssertionError(f"the suite registered {hook.__module__}.{hook.__qualname__} as it is")
    (inner,) = _functions_in(hook)
    return inner


def _functions_in(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The functions that a closure holds."""
    return [cell.cell_contents for cell in function.__closure__ or () if callable(cell.cell_contents)]


def _name(hook: Callable[..., Any]) -> str:
    """``module.function``, and in brackets the functions that it wraps."""
    inner = [_name(function) for function in _functions_in(hook)]
    return f"{hook.__module__}.{hook.__qualname__}" + (f"({', '.join(inner)})" if inner else "")


def _described(ddp: DistributedDataParallel, hooks: list[Registered], rank: int) -> dict[str, Any]:
    hook, state = hooks[0] if hooks else (None, None)
    settings = {
        "hooks": len(hooks),
        "hook": hook and _name(hook),
        # Before the first step: what the state was made with.
        "state": state and dict(inspect.getmembers(state, lambda value: isinstance(value, bool | int | float))),
        "bucket_bytes_cap": ddp.bucket_bytes_cap,
        "static_graph": ddp.static_graph,
        "gradient_as_bucket_view": ddp.gradient_as_bucket_view,
        "find_unused_parameters": ddp.find_unused_parameters,
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
