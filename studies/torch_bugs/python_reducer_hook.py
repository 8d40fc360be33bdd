"""torch.compile with optimize_ddp='python_reducer' passes hooks a tuple.

The reducer in Python calls a hook with `(gradient, parameter)` in place of a GradBucket. `fp16_compress_hook` and
`bf16_compress_hook` take it; `allreduce_hook`, the wrappers, PowerSGD, the 8-bit hooks and users' hooks raise
AttributeError.

Expected: A GradBucket, or an error at `register_comm_hook`.

Instead: `optimize_ddp='no_optimization'`.
"""

import tempfile

import torch
import torch._dynamo
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def bug(rank: int) -> bool:
    torch._dynamo.config.optimize_ddp = "python_reducer"
    torch._dynamo.config.compiled_autograd = True
    ddp = DistributedDataParallel(Given((4,)))
    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    try:
        torch.compile(ddp, backend="eager")(torch.ones(4)).backward()
    except Exception as error:
        return "'tuple' object has no attribute 'buffer'" in str(error)
    finally:
        torch._dynamo.config.optimize_ddp, torch._dynamo.config.compiled_autograd = True, False
        torch._dynamo.reset()
    return False


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
