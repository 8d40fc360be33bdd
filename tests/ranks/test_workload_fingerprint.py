"""The fingerprint of a rank's training: equal in every launch, and different for another workload."""

from dataclasses import fields, replace

import pytest

from fixtures.launch.protocol import TrainRequest, TrainResult, WorkloadFingerprint
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world


def trained(ranks: RankSets, workload: str, config: str = "ddp", world: str = "1cpu", warmup: int = 1) -> TrainResult:
    request = TrainRequest(workload=workload, config=config, world=world, steps=1, warmup=warmup)
    (launch,) = ranks.of(INTERCONNECTS["native"])
    return launch.ask(parse_world(world), request, doing="training")[0]


def fingerprint(ranks: RankSets, variant: str) -> WorkloadFingerprint:
    return trained(ranks, f"tests.workload_variants:{variant}").workload_fingerprint


def test_it_says_what_the_model_the_batch_and_the_optimizer_are(two_ranks: RankSets) -> None:
    taken = fingerprint(two_ranks, "variant")
    # Two weights, two biases and a norm's two; a norm's mean, variance and number of batches.
    assert (taken.parameters, taken.parameter_elements, taken.parameter_dtypes) == (
        6,
        8 * 16 + 16 + 32 + 68,
        ["float32"],
    )
    assert (taken.buffers, taken.buffer_elements) == (3, 33)
    assert (taken.sample, taken.batch_size) == (["float32[8]"], 4)
    assert (taken.optimizer, taken.optimizer_options["lr"]) == ("SGD", "0.001")
    assert taken.activation_dtypes == ["float32"]


def test_it_is_equal_in_every_launch_and_whatever_the_config(two_ranks: RankSets) -> None:
    first = trained(two_ranks, "vit_tiny", world="2cpu")
    assert trained(two_ranks, "vit_tiny", world="2cpu").workload_fingerprint == first.workload_fingerprint
    assert trained(two_ranks, "vit_tiny", config="single").workload_fingerprint == first.workload_fingerprint
    assert trained(two_ranks, "vit_tiny", warmup=0).workload_fingerprint == first.workload_fingerprint
    assert trained(two_ranks, "vit_tiny", config="feed_loader").workload_fingerprint == first.workload_fingerprint


@pytest.mark.parametrize(
    ("variant", "changed"),
    [
        ("batch", {"batch_size"}),
        ("shape", {"parameters_sha256", "parameter_elements", "buffers_sha256", "buffer_elements"}),
        ("frozen", {"parameters_sha256"}),
        (
            "buffers",
            {"parameters", "parameter_elements", "parameters_sha256", "buffers", "buffer_elements", "buffers_sha256"},
        ),
        ("dtype", {"parameter_dtypes", "parameters_sha256", "buffers_sha256", "sample", "activation_dtypes"}),
        ("optimizer", {"optimizer", "optimizer_options"}),
        ("learning_rate", {"optimizer_options"}),
        ("autocast", {"activation_dtypes"}),
        ("unused", {"find_unused_parameters"}),
    ],
)
def test_another_workload_has_another_one(two_ranks: RankSets, variant: str, changed: set[str]) -> None:
    before, now = fingerprint(two_ranks, "variant"), fingerprint(two_ranks, variant)
    assert {field.name for field in fields(now) if getattr(now, field.name) != getattr(before, field.name)} == changed


def test_autocast_changes_the_forward_pass_alone(two_ranks: RankSets) -> None:
    before, now = fingerprint(two_ranks, "variant"), fingerprint(two_ranks, "variant@autocast")
    assert now.activation_dtypes == ["bfloat16", "float32"]
    assert replace(now, activation_dtypes=before.activation_dtypes) == before


def test_a_precision_ends_with_its_launch(two_ranks: RankSets) -> None:
    fingerprint(two_ranks, "variant@tf32")
    taken = fingerprint(two_ranks, "variant@tf32"), fingerprint(two_ranks, "variant")
    assert [one.float32_matmul_precision for one in taken] == ["high", "highest"]


def test_the_options_of_a_hook_are_those_it_began_with(two_ranks: RankSets) -> None:
    options = trained(two_ranks, "vit_tiny", config="powersgd_rank1", warmup=4).hook_options
    assert (options["matrix_approximation_rank"], options["start_powerSGD_iter"], options["iter"]) == ("1", "3", "0")
