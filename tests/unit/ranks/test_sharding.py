"""The blocks that FSDP2 gathers one by one, and the bytes that a sharded model sends."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fixtures.launch.protocol import CannotRun
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import Backend, World
from fixtures.ranks.sharding import Shards, blocks_of, broadcast_bytes, shard, shared_parameters


def lists(*containers: nn.Module) -> nn.Module:
    return nn.ModuleList([*containers, nn.Tanh()])


@pytest.mark.parametrize(
    ("workload", "blocks"),
    [
        ("vit_l_32", ("encoder.layers",)),
        ("vit_tiny", ("encoder.layers",)),
        ("gpt2_124m", ("blocks",)),
        ("gpt2_124m_lora", ("blocks",)),
        ("resnet50", ("layer1", "layer2", "layer3", "layer4")),
    ],
)
def test_the_blocks_of_a_workload_are_found(workload: str, blocks: tuple[str, ...]) -> None:
    with torch.device("meta"):
        assert blocks_of(WORKLOADS[workload].model()) == blocks


@pytest.mark.parametrize(
    ("build", "blocks"),
    [
        (lambda: nn.Linear(4, 4), ()),
        (lambda: lists(nn.Sequential(nn.Linear(4, 4))), ()),  # one block is the model
        (lambda: lists(nn.Sequential(nn.Linear(4, 4), nn.Tanh())), ()),  # of several types
        (lambda: lists(nn.Sequential(nn.Tanh(), nn.Tanh())), ()),  # without parameters
        (lambda: lists(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.ModuleList(map(nn.LayerNorm, (9, 9)))), "1"),
        (lambda: lists(nn.ModuleList(nn.ModuleList(nn.Linear(2, 2) for _ in "ab") for _ in "ab")), "0"),
    ],
)
def test_blocks_are_modules_of_one_type_in_the_largest_list(
    build: Callable[[], nn.Module], blocks: tuple[str, ...]
) -> None:
    assert blocks_of(build()) == tuple(blocks)


@pytest.mark.parametrize(("one", "other"), [("0.weight", "2.weight"), ("0.weight", "3.weight"), (None, None)])
def test_a_parameter_of_two_blocks_or_of_a_block_and_the_rest_is_named(one: str | None, other: str | None) -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    if one and other:
        model[int(other[0])].weight = model[int(one[0])].weight
    expected = None if one is None else (one, other)
    assert shared_parameters(model, [model[0], model[1], model[2]]) == expected
    assert shared_parameters(model, [model]) is None  # of one block


def test_zero1_broadcasts_no_frozen_parameters() -> None:
    model, three = nn.Linear(4, 4), World(backend="gloo", size=3)
    assert broadcast_bytes(model, CONFIGS["zero1"], three) == 2 * (16 + 4) * 4
    assert broadcast_bytes(model, CONFIGS["zero1_muon"], three) == 2 * 16 * 4  # every rank updates vectors
    assert broadcast_bytes(model, CONFIGS["muon"], three) == 0
    model.bias.requires_grad_(False)
    assert broadcast_bytes(model, CONFIGS["zero1"], three) == 2 * 16 * 4


@pytest.mark.parametrize(
    ("backend", "ranks", "groups", "block_bytes", "sent"),
    [
        ("nccl", 8, 1, 0, 2 * 7 * 1000),  # as much as an all-reduce
        ("nccl", 8, 1, 800, 7 * (1000 + 800 + 1000)),  # blocks are gathered again in the backward pass
        ("gloo", 2, 1, 0, 1000 + 2 * 1000),  # gloo reduces and scatters with an all-reduce
        # A group of 2 sends 1000 for each collective; 2 rings of 2 ranks all-reduce 500 bytes each.
        ("nccl", 4, 2, 800, 2 * (1000 + 800 + 1000) + 2 * 2 * 500),
    ],
)
def test_a_sharded_model_sends_what_its_collectives_carry(
    backend: Backend, ranks: int, groups: int, block_bytes: int, sent: int
) -> None:
    of_group = Shards(
        ranks=ranks // groups,
        groups=groups,
        blocks=(),
        block_bytes=block_bytes,
        gathered_bytes=1000,
        reduced_bytes=1000,
    )
    assert of_group.wire_bytes(World(backend=backend, size=ranks)) == sent


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Linear(2, 2, dtype=torch.complex64), "parameters of real numbers, the model has torch.complex64"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), "leaves the running statistics of 1 in float32"),
    ],
)
def test_what_cannot_be_trained_in_bf16_says_why(model: nn.Module, reason: str) -> None:
    world = World(backend="gloo", size=2)
    with pytest.raises(CannotRun, match=reason):
        shard(model, WORKLOADS["vit_tiny"], CONFIGS["fsdp2_bf16"], world, torch.device("cpu"))
