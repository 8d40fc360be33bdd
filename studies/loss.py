"""What lossy hooks do to the loss of a small ViT that learns: docs/studies/results.md.

    python -m studies.loss [--train STEPS] [--minutes N]

The images are drawn: each of ten classes has a pattern of its own, under noise. Runs ``pytest perf --train`` on all
GPUs, else on the CPU, and prints the table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixtures.matrix.hook import Hook
from fixtures.matrix.workloads import Workload

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

ROOT = Path(__file__).parent.parent
CLASSES, SIZE, NOISE = 10, 16, 1.5
HOOKS = ("powersgd_rank1_no_feedback", "powersgd_rank4_no_feedback")
CONFIGS = ("bf16", "fp16", "powersgd_rank1", "powersgd_rank4", "fp8_all_to_all-bucket_25mb")
SELECTED = " or ".join((*(f"pu-{config}]" for config in CONFIGS), "no_feedback"))


def _vit() -> "nn.Module":
    from torchvision.models import VisionTransformer

    model: nn.Module = VisionTransformer(
        image_size=SIZE,
        patch_size=4,
        num_layers=3,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=256,
        num_classes=CLASSES,
    )
    return model


def _image() -> "tuple[Tensor, Tensor]":
    import torch

    patterns = torch.randn(CLASSES, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    label = torch.randint(CLASSES, ())
    pattern = torch.nn.functional.interpolate(patterns[label][None], SIZE, mode="bilinear")[0]
    return pattern + NOISE * torch.randn(3, SIZE, SIZE), label


def _loss(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "Tensor":
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(images), labels)


def _adamw(parameters: "Iterable[nn.Parameter]") -> "Optimizer":
    from torch.optim import AdamW

    return AdamW(parameters, lr=1e-3)


vit = Workload(name="vit_patterns", batch_size=16, model=_vit, sample=_image, loss=_loss, optimizer=_adamw)


# Any: as in ``Hook``.
def _without_feedback(rank: int) -> Callable[[Any], tuple[Any, Any]]:
    def build(ddp: Any) -> tuple[Any, Any]:
        from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

        state = PowerSGDState(
            ddp.process_group, matrix_approximation_rank=rank, start_powerSGD_iter=2, use_error_feedback=False
        )
        return state, powerSGD_hook

    return build


powersgd_rank1_no_feedback, powersgd_rank4_no_feedback = (
    Hook(name=name, build=_without_feedback(rank)) for name, rank in zip(HOOKS, (1, 4), strict=True)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--train", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        options = [f"--train={given.train}", f"--minutes={given.minutes}", f"--benchmark-json={file}"]
        hooks = [f"--hook=studies.loss:{hook}" for hook in HOOKS]
        command = ["-m", "pytest", "perf/test_loss.py", "--workload=studies.loss:vit", *hooks, *options, "-k", SELECTED]
        subprocess.run([sys.executable, *command], cwd=ROOT, check=False)  # a test of a harmful hook fails
        if not file.exists():
            sys.exit("no loss was compared: the lines above say why")
        losses = json.loads(file.read_text())["losses"]
    print("\n| config | final loss | seeds | seeds differ by | result |\n|---|---|---|---|---|")
    for one in losses:
        low, high = one["interval_percent"]
        change = f"{one['change_percent']:+.1f} % ({low:+.1f} to {high:+.1f})"
        print(f"| `{one['config']}` | {change} | {one['seeds']} | {one['seeds_percent']:.1f} % | {one['word']} |")


if __name__ == "__main__":
    main()
