"""What stopped the capture of a CUDA graph: the first error, and the innermost line of code outside torch."""

import torch

from fixtures.ranks.graph import reason


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
    assert said.startswith("test_graph.py, line 9, torch.zeros(2, 3) @ torch.zeros(2, 3)")
    assert "previous error" not in said
    assert "\n" not in said
    assert reason(RuntimeError("out of memory\nmore")) == "out of memory"

    def step() -> None:
        raise NotImplementedError

    assert reason(failed(step)).endswith(": NotImplementedError")
