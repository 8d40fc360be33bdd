"""The gradient error of a config, measured with the real workload on live ranks."""

import math
import re
from functools import cache
from typing import Any

import pytest

from fixtures.launch.protocol import CannotRun, TrainRequest, to_json
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.configs import find_config
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import INTERCONNECTS, parse_world
from fixtures.records.measurement import Launch, Measurement
from tests.ranks.asking import called, trained


@cache
def launched(ranks: RankSet, config: str, world: str = "2cpu", *, workload: str = "vit_tiny") -> Launch:
    return Launch.of(trained(ranks, config, workload=workload, world=world, check_gradients=True))


def error_of(ranks: RankSet, config: str, **more: Any) -> float:
    error = launched(ranks, config, **more).gradient_error
    assert error is not None
    return error


LOSSLESS = ("ddp", "ddp_default", "static_graph_bucket_view", "bucket_10mb", "in_backward-bucket_25mb")


@pytest.mark.parametrize(
    ("config", "least", "most"),
    [
        *((config, -1, 2**-23) for config in LOSSLESS),  # two roundings of float32
        # About the unit roundoff of half precision.
        ("bf16", 2**-8 / 20, 3 * 2**-8),
        ("fp16", 2**-11 / 20, 3 * 2**-11),
        # What is not the mean errs by a good part of it.
        ("no_comm", 0.1, math.inf),
        ("powersgd_rank1", 0.1, math.inf),
    ],
)
def test_a_config_errs_by_its_roundings(ranks: RankSet, config: str, least: float, most: float) -> None:
    assert least < error_of(ranks, config) <= most


@pytest.mark.parametrize(("config", "least"), [("ddp", 0.0), ("tests.hooks_for_tests:drops_every_second", 0.1)])
def test_of_complex_gradients_the_imaginary_part_counts(ranks: RankSet, config: str, least: float) -> None:
    error = error_of(ranks, config, workload=":complex_numbers")
    assert error > least if least else error < 2**-23


@pytest.mark.parametrize("config", ["powersgd_rank4", "in_backward-bucket_25mb"])
def test_what_torch_gives_half_of_complex_gradients_takes_none(ranks: RankSet, config: str) -> None:
    with pytest.raises(CannotRun, match=f"{config} cannot take complex parameters: torch gives it half"):
        launched(ranks, config, workload=":complex_numbers")


@pytest.mark.parametrize(
    ("config", "lossless", "fidelity"),
    [
        ("ddp", True, "lossless"),
        ("static_graph_bucket_view", True, "lossless"),
        ("tests.hooks_for_tests:lossless", True, "lossless"),
        ("tests.hooks_for_tests:one_in_ten_thousand_off", False, "wrong"),
        ("bf16", False, "lossy"),
        ("fp16", False, "lossy"),
        ("powersgd_rank4", False, "lossy"),
    ],
)
def test_lossless_is_what_was_delivered_not_what_was_promised(
    ranks: RankSet, config: str, lossless: bool, fidelity: str
) -> None:
    launch = launched(ranks, config)
    promised = Measurement(
        workload=WORKLOADS["vit_tiny"],
        world=parse_world("2cpu"),
        config=find_config(config),
        interconnect=INTERCONNECTS["native"],
        launches=(launch,),
    )
    assert launch.gradient_lossless == lossless
    assert promised.fidelity == fidelity


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "bucket_view"])
def test_parameters_that_only_some_ranks_use_are_compared_on_all(ranks: RankSet, config: str) -> None:
    assert error_of(ranks, config, workload=":experts") <= 2**-23
    assert launched(ranks, config, workload=":experts").gradient_lossless
    assert launched(ranks, config, workload=":experts").left_out == []


@pytest.mark.parametrize("config", ["ddp", "ddp_default", "bucket_view", "static_graph", "bucket_10mb"])
def test_a_pass_that_draws_from_other_generators_than_torchs_is_compared(ranks: RankSet, config: str) -> None:
    assert launched(ranks, config, workload=":drawing").gradient_lossless


def test_a_pass_that_is_not_reproducible_is_not_called_wrong(ranks: RankSet) -> None:
    launch = launched(ranks, "ddp", workload=":irreproducible")
    assert (launch.gradient_error, launch.gradient_lossless) == (None, None)
    (remark,) = launch.remarks
    assert re.fullmatch(
        r"gradients not compared: two backward passes of one batch differ by 1\d\d %; "
        r"if the model draws random numbers, draw them from a global generator",
        remark,
    )


@pytest.mark.parametrize(("config", "fidelity"), [("ddp", "lossless"), ("bf16", "wrong"), ("static_graph", "wrong")])
def test_a_mean_that_ddp_does_not_form_for_this_model_is_wrong_in_bfloat16_too(
    ranks: RankSet, config: str, fidelity: str
) -> None:
    launch = launched(ranks, config, workload=":penalised")
    measured = Measurement(
        workload=WORKLOADS["vit_tiny"],
        config=find_config(config),
        world=parse_world("2cpu"),
        interconnect=INTERCONNECTS["native"],
        launches=(launch,),
    )
    assert measured.fidelity == fidelity
    said = str(measured.broken_promise)
    assert ("promises the mean in bfloat16, but on penalised its gradient is off by " in said) == (config == "bf16")


def test_a_model_that_needs_static_graph_skips_the_configs_without_it(ranks: RankSet) -> None:
    assert launched(ranks, "static_graph", workload=":checkpointing").gradient_lossless
    with pytest.raises(CannotRun, match=r"cannot train this model without static_graph: a parameter is ready twice"):
        launched(ranks, "ddp", workload=":checkpointing")


@pytest.mark.parametrize("config", ["bucket_10mb", "bf16", "no_comm", "ddp"])
def test_static_graph_is_left_out_where_a_step_uses_other_parameters_than_another(ranks: RankSet, config: str) -> None:
    launch = launched(ranks, config, workload=":routed")
    left_out = [] if config == "ddp" else ["static_graph"]
    assert (launch.left_out, launch.remarks) == (
        left_out,
        [f"{name} is left out: the parameters that a step uses vary" for name in left_out],
    )
    assert launch.gradient_lossless == (config in ("bucket_10mb", "ddp"))


def test_to_look_at_the_parameters_that_a_step_uses_changes_nothing(ranks: RankSet) -> None:
    """Neither buffers, of which one gets another shape, nor the numbers that a step draws."""
    assert called(ranks, "rank_ddp_settings:looked_at") == [[True, []], [True, []]]


def test_ranks_draw_different_samples_after_a_comparison(ranks: RankSet) -> None:
    """Also from the generators of Python and numpy: with equal samples nothing would have to be sent."""
    for _ in range(2):
        (first, _) = trained(ranks, "no_comm", workload=":of_other_generators", check_gradients=True)
        assert first.gradient_error is not None
        assert first.gradient_error > 0.01


@pytest.mark.parametrize(
    ("workload", "config", "small", "lossless"),
    [
        *((":queueing", config, lossless, lossless) for config, lossless in (("ddp", True), ("fsdp2", True))),
        (":queueing", "no_comm", False, False),
        (":shaky", "ddp", False, True),  # passes that differ by themselves
    ],
)
def test_buffers_that_a_pass_changes_are_as_they_were(
    ranks: RankSet, workload: str, config: str, small: bool, lossless: bool
) -> None:
    assert (error_of(ranks, config, workload=workload) < 2**-22) == small
    assert launched(ranks, config, workload=workload).gradient_lossless == lossless


def test_without_ddp_there_is_nothing_to_compare(ranks: RankSet) -> None:
    launch = launched(ranks, "single", "1cpu")
    assert (launch.gradient_error, launch.gradient_lossless, launch.gradient_error_steps) == (None, None, None)


@pytest.mark.parametrize(("config", "steps"), [("bf16", 1), ("powersgd_rank1", 20)])
def test_an_error_has_the_number_of_steps_over_whose_mean_it_is(ranks: RankSet, config: str, steps: int) -> None:
    assert launched(ranks, config).gradient_error_steps == steps


@pytest.mark.parametrize("config", ["powersgd_rank1", "powersgd_rank1_same_shape", "bf16_powersgd_rank1"])
def test_powersgd_compresses_a_model_of_several_dtypes_in_every_measured_step(ranks: RankSet, config: str) -> None:
    """After the shortest warm-up.

    Under static_graph the first step has no last bucket, and PowerSGD counts steps by last buckets. Without compression
    the error is below 0.01.
    """
    assert error_of(ranks, config, workload=":mixed") > 0.1


def test_the_rounding_of_one_dtype_hides_no_loss_in_another(ranks: RankSet) -> None:
    launch = launched(ranks, "bf16", workload=":mixed")
    assert launch.gradient_lossless is False
    assert 2**-10 < (launch.gradient_error or 0) < 2**-6


def test_what_is_no_number_is_not_called_lossy(ranks: RankSet) -> None:
    workload = "tests.workloads_for_tests:not_a_number"
    request = TrainRequest(workload=workload, config="ddp", world="2cpu", steps=1, warmup=4, check_gradients=True)
    for answer in called(ranks, "rank_faults:tried", function=request.function, arguments=to_json(request)):
        assert answer["error"].startswith("Refused: workload 'not_a_number': its gradients are not finite")
