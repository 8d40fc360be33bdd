"""The operations of a sample, the most memory that a launch takes, and bytes that the kernel counts on sockets."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.data import default_collate

from fixtures.launch.protocol import TrainRequest
from fixtures.matrix.workloads import WORKLOADS
from fixtures.ranks.counters import (
    Flops,
    counted_flops,
    flops_per_sample,
    peak_memory_bytes,
    reset_peak_memory,
    sent_bytes,
)
from tests.builders import as_rank

WORKLOAD = replace(WORKLOADS["vit_tiny"], loss=lambda model, x: model(x).sum())


class Attention(nn.Module):
    """Self-attention without a projection."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_multiply_add_counts_as_two_and_the_first_layer_has_no_gradient_of_its_input(batch: int) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    forward = 2 * (8 * 16 + 16 * 4)
    counted = flops_per_sample(WORKLOAD, model, (torch.randn(batch, 8),))
    assert counted == {"matrix product": 3 * forward - 2 * 8 * 16, "convolution": 0}


def test_convolutions_are_counted_apart_and_attention_on_the_cpu_too() -> None:
    counted = flops_per_sample(WORKLOAD, nn.Conv2d(3, 5, 2, bias=False), (torch.randn(2, 3, 4, 4),))
    assert counted == {"matrix product": 0, "convolution": 2 * (2 * 3 * 5 * 2 * 2 * 3 * 3)}
    # Two products in the forward pass; in the backward pass four, and the scores once more.
    x = torch.randn(1, 2, 6, 8, requires_grad=True)
    assert flops_per_sample(WORKLOAD, Attention(), (x,))["matrix product"] == (2 + 5) * 2 * 2 * 6 * 6 * 8


class Uncountable(nn.Module):
    """Refuses to run under a counter, and counts its forward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        raise RuntimeError("no formula")


def test_what_cannot_be_counted_has_the_reason_and_is_tried_once_for_a_workload_and_world(tmp_path: Path) -> None:
    ctx = as_rank(tmp_path)
    request = TrainRequest(workload="uncountable", config="ddp", world="1cpu", steps=1, warmup=1)
    model = Uncountable()
    for config in ("ddp", "single"):
        flops = counted_flops(ctx, replace(request, config=config), WORKLOAD, model, (torch.randn(2, 8),))
        assert flops == Flops(uncounted="RuntimeError: no formula")
    assert model.passes == 1
    counted_flops(ctx, replace(request, world="2cpu"), WORKLOAD, model, (torch.randn(2, 8),))
    assert model.passes == 2


def test_a_vision_transformer_takes_three_times_its_forward_pass() -> None:
    """ViT-L/32: torchvision's page has 15.38 GFLOPS of multiply-adds for a sample."""
    workload = WORKLOADS["vit_l_32"]
    with torch.device("meta"):
        model = workload.model()
    batch = tuple(tensor.to("meta") for tensor in default_collate([workload.sample()]))
    counted = flops_per_sample(workload, model, batch)
    assert counted["matrix product"] + counted["convolution"] == pytest.approx(3 * 2 * 15.38e9, rel=0.01)


# The most memory that a launch takes on the CPU, and where the system does not let it be counted anew


CPU = torch.device("cpu")
LARGE = 300_000_000


def test_what_was_taken_before_does_not_count_or_that_is_reported(tmp_path: Path) -> None:
    large = bytearray(b"x" * LARGE)
    full = peak_memory_bytes(CPU)
    del large
    assert reset_peak_memory(CPU)
    assert peak_memory_bytes(CPU) < full - LARGE / 2
    assert not reset_peak_memory(CPU, clear_refs=tmp_path / "self" / "clear_refs")


def test_the_memory_of_a_gpu_is_that_of_the_device_that_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current device of a script may be another one, and empty."""
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device=None: 0 if device is None else 7_000_000_000)
    assert peak_memory_bytes(torch.device("cuda", 1)) == 7_000_000_000


# Bytes that the kernel counts on open sockets; over live ranks: tests/ranks/test_wire_bytes.py


@pytest.fixture
def short_timeout() -> Iterator[None]:
    """A timeout that a workload sets for the sockets it opens later."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.001)
    yield
    socket.setdefaulttimeout(before)


def test_counting_leaves_open_sockets_as_they_are(short_timeout: None) -> None:
    pair = socket.socketpair(socket.AF_UNIX)
    for end in pair:
        end.setblocking(True)
        sent_bytes()
        assert os.get_blocking(end.fileno())
    assert socket.getdefaulttimeout() == 0.001
    for end in pair:
        end.close()
