"""GPU memory that a launch leaves to the next one, as a rank reports it."""

import pytest
import torch

from fixtures.ranks.process_state import ProcessWatch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_tensor_that_is_kept_is_reported_once() -> None:
    watch = ProcessWatch(torch.device("cuda", 0))
    kept = torch.zeros(25_000_000, device="cuda")
    (line,) = watch.changes()
    assert line.startswith("GPU memory of tensors: ")
    assert watch.changes() == []
    del kept
    assert watch.changes() == []


def test_a_cycle_and_what_cublas_and_another_stream_keep_are_not() -> None:
    watch = ProcessWatch(torch.device("cuda", 0))
    other = torch.cuda.Stream()
    of_other = torch.zeros(25_000_000, device="cuda")
    with torch.cuda.stream(other):
        of_other.add_(1)
    of_other.record_stream(other)
    del of_other
    cycle: list[object] = [torch.zeros(25_000_000, device="cuda")]
    cycle.append(cycle)
    del cycle
    for _ in range(8):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
    torch.cuda.synchronize()
    assert watch.changes() == []
