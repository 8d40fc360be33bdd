"""Sharded and fused configs train to the weights of AdamW under DDP, on two live ranks over gloo."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fixtures.launch.protocol import CannotRun
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.configs import CONFIGS, SHARDING
from fixtures.matrix.shardings import BY_BLOCK
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.builders import launch, measured
from tests.ranks import asking

Answers = dict[str, list[dict[str, Any]]]
WORLD = World(backend="gloo", size=2)
# Muon is too slow for a CPU only where the model is larger.
MEASURED = [
    name
    for name in SHARDING
    if CONFIGS[name].why_not(replace(WORLD, backend="nccl"), warmup=4) is None and not CONFIGS[name].graph
]


@pytest.fixture(scope="module")
def trained(two_ranks: RankSets) -> Answers:
    """Config -> the answer of each rank."""
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    return {c: asking.called(ranks, "rank_sharding:trained", config=c, world=WORLD.name) for c in MEASURED}


def of(trained: Answers, config: str, key: str) -> Any:
    return trained[config][0][key]


@pytest.mark.parametrize("config", [name for name in MEASURED if not CONFIGS[name].in_bf16])
def test_it_trains_to_the_weights_of_the_same_optimizer_under_ddp(trained: Answers, config: str) -> None:
    reference = {"SGD": "sgd", "AdamW": "adamw", "Muon": "muon"}[CONFIGS[config].trains_with or ""]
    expected = of(trained, reference, "measured")
    for answer in trained[config]:
        assert answer["measured"] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        # A step of AdamW changes each weight by about its learning rate, 1e-4.
        assert max(abs(a - b) for a, b in zip(answer["before"], answer["measured"], strict=True)) > 1e-4


def test_in_bf16_it_trains_along_the_same_way(trained: Answers) -> None:
    before, expected = of(trained, "adamw", "before"), of(trained, "adamw", "measured")
    way = math.dist(before, expected)
    for answer in (*trained["fsdp2_bf16"], *trained["fsdp2_bf16_keep"]):
        assert 1e-5 * way < math.dist(answer["measured"], expected) < 0.2 * way


@pytest.mark.parametrize("config", MEASURED)
def test_pasted_lines_train_to_the_same_weights_and_the_predicted_bytes_are_those_of_the_collectives(
    trained: Answers, config: str
) -> None:
    for answer in trained[config]:
        assert answer["pasted"] == answer["measured"]  # to the last bit
        assert answer["in_fsdp2"] == [CONFIGS[config].in_fsdp2] * 2
    assert of(trained, config, "predicted") == of(trained, config, "issued") > 0


def test_blocks_are_found_and_gathered_twice(trained: Answers) -> None:
    assert of(trained, "fsdp2", "blocks") == ["layers"]
    assert of(trained, "fsdp2_one", "blocks") == []
    # 33 rows are padded to 34: weights and biases of a block, each of 4 bytes.
    blocks = 4 * 3 * (16 * 33 + 16 + 34 * 16 + 34)
    assert of(trained, "fsdp2", "predicted") - of(trained, "fsdp2_one", "predicted") == blocks
    assert of(trained, "fsdp2_keep", "blocks") == ["layers"]
    assert of(trained, "fsdp2_keep", "predicted") == of(trained, "fsdp2_one", "predicted")
    assert of(trained, "fsdp2_prefetch", "predicted") == of(trained, "fsdp2", "predicted")


def test_in_bf16_half_the_bytes_are_gathered(trained: Answers) -> None:
    # Gloo does an all-reduce instead of a reduce-scatter, of gradients in float32.
    reduced = 2 * of(trained, "fsdp2_one", "predicted") // 3
    gathered = of(trained, "fsdp2", "predicted") - reduced
    assert of(trained, "fsdp2_bf16", "predicted") == gathered // 2 + reduced
    kept = of(trained, "fsdp2_one", "predicted") - reduced
    assert of(trained, "fsdp2_bf16_keep", "predicted") == kept // 2 + reduced


def test_replicas_send_what_ddp_sends_and_half_of_it_in_bf16(trained: Answers) -> None:
    assert of(trained, "replicate", "predicted") == of(trained, "adamw", "predicted")
    assert of(trained, "replicate_bf16", "predicted") == of(trained, "adamw", "predicted") // 2
    for answer in trained["replicate_bf16"]:
        assert answer["measured"] == pytest.approx(of(trained, "adamw", "measured"), abs=2e-4 * 5)


def test_two_blocks_are_gathered_ahead(trained: Answers) -> None:
    in_forward, in_backward = [[1, 2], [2], []], [[], [0], [1, 0]]
    assert of(trained, "fsdp2_prefetch", "ahead") == [[in_forward, in_backward]] * 2
    assert of(trained, "fsdp2", "ahead") == [[[[]] * 3] * 2] * 2


@pytest.mark.parametrize("config", ["zero1", "replicate", "fsdp2", "fsdp2_one", "fsdp2_keep", "fsdp2_prefetch"])
def test_a_launch_of_a_sharded_config_has_a_lossless_gradient(ranks: RankSet, config: str) -> None:
    for answer in asking.trained(ranks, config, steps=2, warmup=2, check_gradients=True, count_flops=True):
        assert answer.gradient_lossless
        assert answer.gradient_error is not None
        assert answer.gradient_error <= 2**-23  # two roundings of float32
        assert answer.workload_fingerprint.parameter_elements == 2_709_706
        assert answer.flops_per_sample is not None, answer.uncounted
        assert answer.flops_per_sample["matrix product"] > 0
        assert answer.sharded_blocks == (["encoder.layers"] if CONFIGS[config].sharding in BY_BLOCK else [])


@pytest.mark.parametrize(
    ("factor", "lossless", "fidelity", "least", "most"),
    [(1, None, "lossy", 2**-10, 8 * 2**-8), (2, False, "wrong", 0.9, 1.1)],
)
def test_in_bf16_a_gradient_is_lossy_within_its_roundings_and_else_wrong(
    ranks: RankSet, factor: float, lossless: bool | None, fidelity: str, least: float, most: float
) -> None:
    for found in asking.called(ranks, "rank_sharding:error", config="fsdp2_bf16", world=WORLD.name, factor=factor):
        assert least < found["relative"] < most
        assert found["lossless"] is lossless
        launched = replace(launch(0.1), gradient_error=found["relative"], gradient_lossless=lossless)
        assert measured("fsdp2_bf16", 10, launches=(launched,)).fidelity == fidelity


@pytest.mark.parametrize(
    ("config", "workload", "reason"),
    [
        ("fsdp2", "narrow", "fsdp2 needs blocks: the model has no nn.ModuleList or nn.Sequential of several"),
        ("fsdp2_one", "experts", "fsdp2_one needs gradients of the same parameters on all ranks"),
        ("fsdp2_one", "mixed", "fsdp2_one needs parameters of one dtype, the model has bfloat16 and float32"),
        ("fsdp2", "tied_blocks", "the model shares 0.0.weight with 0.1.weight; fsdp2_one shards it as a whole"),
        ("muon", "complex_numbers", "muon needs parameters of real numbers, the model has torch.com"),
        ("adamw_fused", "complex_numbers", "adamw_fused needs parameters of real numbers, the model has torch.com"),
        ("zero1", "mixed", "zero1 needs parameters of one dtype, the model has bfloat16 and float32"),
    ],
)
def test_a_model_that_cannot_be_sharded_says_why(ranks: RankSet, config: str, workload: str, reason: str) -> None:
    with pytest.raises(CannotRun, match=reason):
        asking.trained(ranks, config, workload=f":{workload}", warmup=1)
