"""Copies between host and device, and a step of several batches."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import nn

from fixtures.launch.protocol import CannotRun
from fixtures.matrix.config import Outputs
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import Workload, find_workload
from fixtures.matrix.worlds import parse_world
from fixtures.ranks.feed import Checkpoint, LossItem, Metrics, ModelOutputs, batches, in_bytes, prefetched
from fixtures.ranks.loop import EagerStep, nothing_marked, optimizer_of
from fixtures.ranks.window import Untimed
from tests.builders import as_rank

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
    hosts = iter([host] * 7)
    for floats, integers in prefetched(hosts, device, 6):
        torch.cuda._sleep(10_000_000)
        sums.append((floats.double().sum(), integers.sum()))
        del floats, integers
    assert next(hosts) is host  # not asked for more than six, after which a loader would end its workers
    expected = host[0].double().sum().item()
    assert [(one.item(), other.item()) for one, other in sums] == [(expected, 28)] * 6


@pytest.mark.parametrize(
    "part",
    [torch.randn(1000), torch.full((3,), 2.5), torch.randn(9, dtype=torch.float64), torch.tensor([-6e4, 6e4]).half()],
)
def test_bytes_restore_a_tensor_to_half_a_level(part: torch.Tensor) -> None:
    levels, restore = in_bytes(part)
    assert levels.dtype == torch.uint8
    restored = restore(levels)
    assert restored.dtype == part.dtype
    assert (restored.double() - part.double()).abs().max() <= (part.double().max() - part.double().min()) / 255 * 0.501


def test_samples_without_floating_point_parts_cannot_be_sent_in_bytes(tmp_path: Path) -> None:
    workload = replace(find_workload("gpt2_124m"), batch_size=1)
    feed = batches(as_rank(tmp_path), workload, CONFIGS["feed_uint8"], parse_world("1cpu"), 1, 1)
    with pytest.raises(CannotRun, match="feed_uint8 sends floating-point samples in bytes, and gpt2_124m has none"):
        next(feed)


def test_labels_are_sent_as_they_are() -> None:
    labels = torch.arange(5)
    sent, restore = in_bytes(labels)
    assert restore(sent) is sent is labels


def test_the_outputs_of_each_step_arrive() -> None:
    model = nn.Linear(3, 2)
    back = ModelOutputs(model, "outputs_fresh", 1, captured=False)
    for step in range(2):
        returned = model(torch.full((4, 3), float(step)))
        back.after_step(step, returned.sum())
        assert torch.equal(back.host[0], returned)


class Nested(nn.Module):
    def forward(self, images: torch.Tensor) -> dict[str, object]:
        return {"out": images + 1, "aux": [images + 2, "text"]}


def test_every_tensor_of_what_the_model_returns_is_an_output() -> None:
    model = Nested()
    back = ModelOutputs(model, "outputs_fresh", 1, captured=False)
    model(torch.zeros(2))
    back.after_step(0, torch.zeros(()))
    assert [float(host.mean()) for host in back.host] == [1, 2]


class NoTensor(nn.Module):
    def forward(self) -> str:
        return "text"


def test_a_model_without_outputs_cannot_be_measured() -> None:
    model = NoTensor()
    back = ModelOutputs(model, "outputs_fresh", 1, captured=False)
    model()
    with pytest.raises(
        CannotRun, match="outputs_fresh copies the tensors that the model returns, and it returned none"
    ):
        back.after_step(0, torch.zeros(()))


@needs_gpu
@pytest.mark.parametrize("way", get_args(Outputs))
@pytest.mark.parametrize("captured", [False, True])
def test_outputs_are_those_of_their_step_though_training_goes_on(way: Outputs, *, captured: bool) -> None:
    """Large enough that a copy takes longer than the launches of the next step."""
    batch, model, graph = torch.zeros(1 << 24, device="cuda"), nn.Identity(), torch.cuda.CUDAGraph()
    back = ModelOutputs(model, way, 1, captured=captured)
    if captured:
        with torch.cuda.graph(graph):
            model(batch + 1)

    def train(step: int) -> None:
        batch.fill_(step)
        graph.replay() if captured else model(batch + 1)

    hosts = []
    for step in range(6):
        train(step)
        back.after_step(step, batch[0])
        hosts.append(back.host[0])
    train(99)
    torch.cuda.synchronize()
    assert hosts[-1].min() == hosts[-1].max() == 6
    assert hosts[-2].min() == hosts[-2].max() == (6 if way == "outputs_pinned" else 5)
    assert hosts[-1].is_pinned() == (way != "outputs_fresh")


# A step of several batches: step by step, and as a CUDA graph computes it, from tensors of its own for each
# batch


WORKLOAD = Workload(
    name="line",
    batch_size=2,
    model=lambda: nn.Linear(3, 1),
    sample=lambda: (torch.randn(3),),
    loss=lambda model, inputs: model(inputs).square().mean(),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
)


def test_a_graph_reads_each_batch_of_its_step_from_tensors_of_its_own(tmp_path: Path) -> None:
    ctx = as_rank(tmp_path)
    config = CONFIGS["graph-accumulate_4-bucket_25mb"]
    addresses = [batch[0].data_ptr() for batch in batches(ctx, WORKLOAD, config, parse_world("1cpu"), 9, 1)]
    assert len(set(addresses[:4])) == 4
    assert addresses == [addresses[step % 4] for step in range(9)]


def test_a_step_to_capture_trains_like_one_of_the_loop(tmp_path: Path) -> None:
    """On four batches that differ."""
    ctx = as_rank(tmp_path)
    trained = []
    for captured in (False, True):
        torch.manual_seed(0)
        model = WORKLOAD.model()
        four = [(torch.randn(2, 3),) for _ in range(4)]
        optimizer = optimizer_of(WORKLOAD, model)
        step = EagerStep(ctx=ctx, workload=WORKLOAD, model=model, optimizer=optimizer, feed=iter(four), accumulate=4)
        if captured:
            step.compute(0, list(islice(step.feed, 4)), Untimed(), nothing_marked)
        else:
            step(0, Untimed(), nothing_marked)
        trained.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*trained)
