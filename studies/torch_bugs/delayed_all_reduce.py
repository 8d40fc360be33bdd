"""backward() does not wait for the all-reduce of delay_all_reduce_named_params.

The delayed gradients are reduced with `async_op=True`, and nothing waits for it. Right after `backward()` a large
delayed gradient is mostly still local; a moment later it is right.

Expected: `backward()` returns when all gradients are ready.

Instead: none of the two arguments.
"""

import tempfile
import time

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def bug(rank: int) -> bool:
    module = Given((4,), (4_000_000,))
    late = [("weights.1", module.weights[1])]
    ddp = DistributedDataParallel(
        module, delay_all_reduce_named_params=late, param_to_hook_all_reduce=module.weights[0]
    )
    wrong = False
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.ones(4), torch.full((4_000_000,), 2.0 * rank)).backward()
        wrong |= bool((module.weights[1].grad != 1).any())  # the mean of 0 and 2
        dist.barrier()
        time.sleep(0.5)
    return wrong


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
