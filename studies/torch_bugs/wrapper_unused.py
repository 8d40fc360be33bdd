"""With a 16-bit wrapper, unused parameters get gradients in 16 bits.

`fp16_compress_wrapper` replaces the bucket's buffer by one in float16. With `find_unused_parameters` and without
bucket views, DDP makes views of it the gradients of the parameters that this rank has not used: a float32 parameter
has a float16 gradient, on some ranks only. SGD's momentum buffer then has another dtype on each rank.

Expected: Gradients in the parameters' dtype.

Instead: `gradient_as_bucket_view=True`, or `fp16_compress_hook`.
"""

import tempfile

import torch
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


class Some(Given):
    def forward(self, always, sometimes):
        loss = (self.weights[0] * always).sum()
        return loss if sometimes is None else loss + (self.weights[1] * sometimes).sum()


def bug(rank: int) -> bool:
    module = Some((4,), (5,))
    ddp = DistributedDataParallel(module, find_unused_parameters=True)
    ddp.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
    ddp(torch.ones(4), torch.ones(5) if rank == 0 else None).backward()
    return rank == 1 and module.weights[1].grad.dtype == torch.float16


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
