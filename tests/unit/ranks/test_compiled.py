"""What a compiled config changes in its process ends with it."""

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch._dynamo import trace_rules

from fixtures.ranks.graph import compiling

CPU = torch.device("cpu")


def state() -> tuple[object, ...]:
    return (
        torch._dynamo.config.optimize_ddp,
        torch._dynamo.config.compiled_autograd,
        torch._inductor.config._fuse_ddp_communication,
        torch._inductor.config._fuse_ddp_bucket_size,
        sorted(trace_rules.LEGACY_MOD_INLINELIST),
    )


@pytest.mark.parametrize("mode", ["ddp_optimizer", "python_reducer", "no_optimization"])
def test_the_mode_is_set_and_what_ddp_sets_for_it_is_put_back(mode: str) -> None:
    before = state()
    with compiling(None, CPU):
        assert state() == before
    with compiling(mode, CPU):
        assert torch._dynamo.config.optimize_ddp == mode
        assert torch._dynamo.config.compiled_autograd == (mode == "python_reducer")
        # As DDP's constructor does for python_reducer.
        torch._inductor.config._fuse_ddp_communication = True
        torch._inductor.config._fuse_ddp_bucket_size = 7
        trace_rules.LEGACY_MOD_INLINELIST.add("torch.nn.parallel.distributed")
    assert state() == before
