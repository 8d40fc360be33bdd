"""What stopped the capture of a CUDA graph, and what a compiled config changes in its process ends with it."""

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch._dynamo import trace_rules

from fixtures.ranks.graph import compiling, reason


def loss() -> None:
    torch.zeros(2, 3) @ torch.zeros(2, 3)  # raised within the step


def failed(step: object) -> BaseException:
    """The error of a capture whose end fails too, as torch.cuda.graph's does."""
    assert callable(step)
    try:
        try:
            step()
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
    except RuntimeError as error:
        return error


def test_the_line_of_code_is_that_of_the_first_error() -> None:
    said = reason(failed(loss))
    assert said.startswith(f"test_graph.py, line {loss.__code__.co_firstlineno + 1}, torch.zeros(2, 3) @")
    assert "previous error" not in said
    assert "\n" not in said
    assert reason(RuntimeError("out of memory\nmore")) == "out of memory"

    def step() -> None:
        raise NotImplementedError

    assert reason(failed(step)).endswith(": NotImplementedError")


# What a compiled config changes in its process ends with it


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
