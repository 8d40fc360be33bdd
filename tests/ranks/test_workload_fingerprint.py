"""The fingerprint of a rank's training: equal in every launch, and different for another workload."""

from dataclasses import fields, replace
from typing import Any

import pytest

from fixtures.launch.protocol import WorkloadFingerprint
from fixtures.launch.rank_sets import RankSet
from tests.ranks.asking import trained


def fingerprint(ranks: RankSet, workload: str, config: str = "ddp", **more: Any) -> WorkloadFingerprint:
    asked = {"world": "1cpu", "warmup": 1, **more}
    name = workload if "vit" in workload else f"tests.workload_variants:{workload}"
    return trained(ranks, config, workload=name, **asked)[0].workload_fingerprint


def test_it_says_what_the_model_the_batch_and_the_optimizer_are(ranks: RankSet) -> None:
    taken = fingerprint(ranks, "variant")
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


def test_it_is_equal_in_every_launch_and_whatever_the_config(ranks: RankSet) -> None:
    first = fingerprint(ranks, "vit_tiny", world="2cpu")
    assert fingerprint(ranks, "vit_tiny", world="2cpu") == first
    for config, warmup in (("single", 1), ("ddp", 0), ("feed_loader", 1)):
        assert fingerprint(ranks, "vit_tiny", config, warmup=warmup) == first


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
def test_another_workload_has_another_one(ranks: RankSet, variant: str, changed: set[str]) -> None:
    before, now = fingerprint(ranks, "variant"), fingerprint(ranks, variant)
    assert {field.name for field in fields(now) if getattr(now, field.name) != getattr(before, field.name)} == changed


def test_autocast_changes_the_forward_pass_alone(ranks: RankSet) -> None:
    before, now = fingerprint(ranks, "variant"), fingerprint(ranks, "variant@autocast")
    assert now.activation_dtypes == ["bfloat16", "float32"]
    assert replace(now, activation_dtypes=before.activation_dtypes) == before


def test_a_precision_ends_with_its_launch(ranks: RankSet) -> None:
    fingerprint(ranks, "variant@tf32")
    taken = fingerprint(ranks, "variant@tf32"), fingerprint(ranks, "variant")
    assert [one.float32_matmul_precision for one in taken] == ["high", "highest"]


def test_the_options_of_a_hook_are_those_it_began_with(ranks: RankSet) -> None:
    options = trained(ranks, "powersgd_rank1", world="1cpu")[0].hook_options
    assert (options["matrix_approximation_rank"], options["start_powerSGD_iter"], options["iter"]) == ("1", "3", "0")


def test_operations_are_counted_after_all_else_and_are_those_of_the_model_without_ddp(ranks: RankSet) -> None:
    both: dict[str, Any] = {"check_gradients": True, "count_flops": True}
    answers = trained(ranks, "static_graph_bucket_view", **both)
    counted = [answer.flops_per_sample for answer in (*answers, *trained(ranks, "single", world="1cpu", **both))]
    assert counted[0] is not None
    assert counted[0]["matrix product"] > 20 * counted[0]["convolution"] > 0
    assert counted == counted[:1] * 3
    again = trained(ranks, "ddp_default", **both)  # the same workload and world
    assert [answer.flops_per_sample for answer in again] == counted[:2]
    assert [answer.gradient_lossless for answer in again] == [True, True]
    assert trained(ranks, "static_graph_bucket_view", check_gradients=True)[0].flops_per_sample is None
