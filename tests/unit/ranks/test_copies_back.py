"""Copies to the host in a step, and the prefetching feed; most tests need a GPU."""

import pytest
import torch
from torch import nn

from fixtures.ranks.copies_back import Checkpoint, LossItem, Metrics
from fixtures.ranks.feed import prefetched

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_loss_is_read_in_one_of_every_steps() -> None:
    back, read = LossItem(3), []
    for step in range(7):
        back.before_update()
        back.after_step(step, torch.tensor(float(step)))
        read.append(back.last)
    assert read == [None, None, 2, 2, 2, 5, 5]


@needs_gpu
def test_metrics_arrive_without_waiting() -> None:
    back = Metrics(1)
    for step in range(10):
        back.after_step(step, torch.tensor(float(step), device="cuda"))
    torch.cuda.synchronize()
    back.after_step(10, torch.tensor(10.0, device="cuda"))
    assert back.last == 9


@needs_gpu
def test_a_checkpoint_is_of_one_moment_though_training_goes_on() -> None:
    """Large enough that the copy takes longer than the launches of the next step."""
    model = nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(4)), nn.BatchNorm1d(4096)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    back = Checkpoint(model, 2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for step in range(4):
        back.before_update()
        optimizer.step()
        if step == 3:
            expected = [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]
        back.after_step(step, torch.zeros(()))
    for buffer in model.buffers():  # the next forward pass
        buffer.add_(1)
    back.before_update()
    optimizer.step()
    torch.cuda.synchronize()
    for host, tensor in zip(back.host, expected, strict=True):
        assert torch.equal(host, tensor.cpu())


@needs_gpu
def test_prefetched_batches_are_whole_although_their_memory_is_used_again() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    host = (torch.arange(1 << 24, dtype=torch.float32).pin_memory(), torch.arange(8).pin_memory())
    sums = []
    for floats, integers in prefetched(host, device, 6):
        torch.cuda._sleep(10_000_000)
        sums.append((floats.double().sum(), integers.sum()))
        del floats, integers
    expected = host[0].double().sum().item()
    assert [(one.item(), other.item()) for one, other in sums] == [(expected, 28)] * 6
