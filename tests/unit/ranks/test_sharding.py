"""The blocks that FSDP2 gathers one by one, and the bytes that a sharded model sends."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from fixtures.launch.protocol import CannotRun
from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import World
from fixtures.ranks.sharding import Shards, blocks_of, broadcast_bytes, shard, shared_parameters


def lists(*containers: nn.Module) -> nn.Module:
    return nn.ModuleList([*containers, nn.Tanh()])


@pytest.mark.parametrize(
    ("workload", "blocks"),
    [
        ("vit_l_32", ("encoder.layers",)),
        ("vit_tiny", ("encoder.layers",)),
        ("gpt2_124m", ("blocks",)),
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


def test_zero1_broadcasts_no_frozen_parameters() -> None:
    model = nn.Linear(4, 4)
    assert broadcast_bytes(model, World(backend="gloo", size=3)) == 2 * (16 + 4) * 4
    model.bias.requires_grad_(False)
    assert broadcast_bytes(model, World(backend="gloo", size=3)) == 2 * 16 * 4


def test_two_modules_of_one_block_may_share_a_parameter() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 4))
    model[0][1].weight = model[0][0].weight  # type: ignore[index]
    assert shared_parameters(model, [model[0]]) is None


def shards(ranks: int, groups: int, *, block_bytes: int = 0) -> Shards:
    return Shards(
        ranks=ranks, groups=groups, blocks=(), block_bytes=block_bytes, gathered_bytes=1000, reduced_bytes=1000
    )


def test_a_model_gathered_at_once_sends_as_much_as_an_all_reduce() -> None:
    assert shards(8, 1).wire_bytes(World(backend="nccl", size=8)) == 2 * 7 * 1000


def test_blocks_are_gathered_again_in_the_backward_pass() -> None:
    assert shards(8, 1, block_bytes=800).wire_bytes(World(backend="nccl", size=8)) == 7 * (1000 + 800 + 1000)


def test_gloo_reduces_and_scatters_with_an_all_reduce() -> None:
    assert shards(2, 1).wire_bytes(World(backend="gloo", size=2)) == 1000 + 2 * 1000


def test_two_groups_all_reduce_their_shards() -> None:
    """Per rank of 4: a group of 2 sends 1000 for each collective; 2 rings of 2 ranks all-reduce 500 bytes each."""
    within, between = 2 * (1000 + 800 + 1000), 2 * 2 * 500
    assert shards(2, 2, block_bytes=800).wire_bytes(World(backend="nccl", size=4)) == within + between


def test_smaller_groups_send_less() -> None:
    sent = [shards(8 // groups, groups).wire_bytes(World(backend="nccl", size=8)) for groups in (1, 2)]
    assert all(more >= less for more, less in pairwise(sent))


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
