"""PowerSGD with an epsilon delivers zeros for ever after a first compressed gradient of zeros.

With an epsilon, which the documentation advises against NaN, P and Q of a gradient of zeros are zero, and the warm
start multiplies by that Q from then on. With error feedback this needs the first compressed gradient of a layer to be
zero, as of a layer that is used later; without it any gradient of zeros does it. At rank 3 and more (QR) it does not
happen.

Expected: The layer learns once its gradient is not zero, for example by drawing a Q of zeros anew.

Instead: `warm_start=False`, or a rank of 3 or more.
"""

import tempfile

import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel


class Given(nn.Module):
    """Parameters whose gradients are the arguments of forward."""

    def __init__(self, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes)

    def forward(self, *gradients: torch.Tensor) -> torch.Tensor:
        return torch.stack([(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]).sum()


def bug(rank: int) -> bool:
    ddp = DistributedDataParallel(Given((16, 16)))
    state = powersgd.PowerSGDState(None, start_powerSGD_iter=2, orthogonalization_epsilon=1e-8)
    ddp.register_comm_hook(state, powersgd.powerSGD_hook)
    for step in range(30):
        ddp.zero_grad()
        ddp(torch.zeros(16, 16) if step == 2 else torch.ones(16, 16)).backward()
    return not ddp.module.weights[0].grad.any()  # the mean is 1


def main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    print(rank, bug(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), nprocs=2)
