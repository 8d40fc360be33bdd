"""Clipping that did not take effect makes a script wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.script.conftest import PLAIN, STEP, Run

Write = Callable[..., Path]
CLIPS = "clip = nn.utils.clip_grad_norm_\nscaler = torch.amp.GradScaler('cpu')\nfree = nn.Parameter(torch.ones(64))\n"
SHARDED = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
m = FSDP(Net(), device_id=torch.device("cpu"))
o = torch.optim.SGD(m.parameters(), lr=0.01)
"""
SCALED = STEP.replace("loss.backward()", "scaler.scale(loss).backward()")
SCALED = SCALED.replace("o.step()", "scaler.step(o)\nscaler.update()")
KEPT = """
was = [p.grad.clone() for p in m.parameters()]
clip(m.parameters(), 0.01)
for p, gradient in zip(m.parameters(), was):
    p.grad = gradient
"""
COPIES = """
copies = [nn.Parameter(p.detach().clone()) for p in m.parameters()]
for p, one in zip(m.parameters(), copies):
    one.grad = p.grad.clone()
clip(copies, 0.01)
"""


def with_clip(line: str, step: str = STEP) -> str:
    place = "scaler.step(o)" if "scaler" in step else "o.step()"
    return step.replace(place, f"{line}\n{place}")


def wrong_of(run: Run, path: Path) -> str | None:
    return run(path, check_gradients=True, steps=8)[0].wrong


@pytest.mark.parametrize(
    ("before", "step", "says"),
    [
        (PLAIN, with_clip(KEPT), "these gradients were not clipped"),
        (PLAIN, with_clip(COPIES), "of parameters that no optimizer updates"),
        (PLAIN, with_clip("clip(m.parameters(), 0.01)", SCALED), "it clipped gradients that were still scaled"),
        (SHARDED, with_clip("clip(m.parameters(), 0.01)"), "it must be the norm of the gradients of all ranks"),
    ],
    ids=["computed, not applied", "of a copy", "before unscaling", "of each rank"],
)
def test_clipping_without_effect_is_wrong(run: Run, script: Write, before: str, step: str, says: str) -> None:
    assert says in (wrong_of(run, script(before=before + CLIPS, step=step)) or "")


@pytest.mark.parametrize(
    ("before", "step"),
    [
        (PLAIN, with_clip("clip(m.parameters(), 0.01)")),
        (PLAIN, with_clip("clip(m.parameters(), 1e9)")),
        (PLAIN, with_clip("clip(m.parameters(), 0.01, norm_type=float('inf'))")),
        (PLAIN, with_clip("clip(m.parameters(), 0.01, 1.0)")),
        (PLAIN, with_clip("for p in m.parameters():\n    clip(p, 0.01)")),
        (PLAIN, with_clip("clip(m.parameters(), 5.0)\nclip(m.parameters(), 0.01)")),
        (PLAIN, with_clip("scaler.unscale_(o)\nclip(m.parameters(), 0.01)", SCALED)),
        (PLAIN, with_clip("clip([free], 1.0)")),
        (SHARDED, with_clip("m.clip_grad_norm_(0.01)")),
    ],
    ids=["clips", "does not need to", "inf", "1", "each", "twice", "unscaled", "without gradients", "of a module"],
)
def test_clipping_that_works_is_silent(run: Run, script: Write, before: str, step: str) -> None:
    assert wrong_of(run, script(before=before + CLIPS, step=step)) is None
