"""The gradient error of a config, measured with the real workload on live ranks."""

from functools import cache

import pytest

from fixtures.launch.protocol import CannotRun, TrainRequest, to_json
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.configs import find_config
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.workloads import WORKLOADS
from fixtures.matrix.worlds import parse_world
from fixtures.records.measurement import Launch, Measurement


@cache
def launched(
    two_ranks: RankSets, config: str, world: str = "2cpu", *, workload: str = "vit_tiny", warmup: int = 4
) -> Launch:
    (launch,) = two_ranks.of(INTERCONNECTS["native"])
    request = TrainRequest(workload=workload, config=config, world=world, steps=1, warmup=warmup, check_gradients=True)
    return Launch.of(launch.ask(parse_world(world), request, doing=config))


def error_of(two_ranks: RankSets, config: str) -> float:
    error = launched(two_ranks, config).gradient_error
    assert error is not None
    return error


@pytest.mark.parametrize(
    "config",
    ["ddp", "ddp_default", "static_graph_bucket_view", "bucket_10mb", "in_backward-bucket_25mb"],
)
def test_a_lossless_config_delivers_the_mean(two_ranks: RankSets, config: str) -> None:
    assert error_of(two_ranks, config) <= 2**-23  # two roundings of float32


@pytest.mark.parametrize(("config", "unit_roundoff"), [("bf16", 2**-8), ("fp16", 2**-11)])
def test_half_precision_errs_by_about_its_unit_roundoff(two_ranks: RankSets, config: str, unit_roundoff: float) -> None:
    assert unit_roundoff / 20 < error_of(two_ranks, config) < 3 * unit_roundoff


@pytest.mark.parametrize(("config", "least"), [("ddp", 0.0), ("tests.hooks_for_tests:drops_every_second", 0.1)])
def test_of_complex_gradients_the_imaginary_part_counts(two_ranks: RankSets, config: str, least: float) -> None:
    error = launched(two_ranks, config, workload="tests.workloads_for_tests:complex_numbers").gradient_error
    assert error is not None
    assert error > least if least else error < 2**-23


@pytest.mark.parametrize("config", ["powersgd_rank4", "in_backward-bucket_25mb"])
def test_what_torch_gives_half_of_complex_gradients_takes_none(two_ranks: RankSets, config: str) -> None:
    with pytest.raises(CannotRun, match=f"{config} cannot take complex parameters: torch gives it half"):
        launched(two_ranks, config, workload="tests.workloads_for_tests:complex_numbers")


@pytest.mark.parametrize("config", ["no_comm", "powersgd_rank1"])
def test_what_is_not_the_mean_errs_by_a_good_part_of_it(two_ranks: RankSets, config: str) -> None:
    assert error_of(two_ranks, config) > 0.1


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
    two_ranks: RankSets, config: str, lossless: bool, fidelity: str
) -> None:
    launch = launched(two_ranks, config)
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
def test_parameters_that_only_some_ranks_use_are_compared_on_all(two_ranks: RankSets, config: str) -> None:
    launch = launched(two_ranks, config, workload="tests.workloads_for_tests:experts")
    assert launch.gradient_error is not None
    assert launch.gradient_error <= 2**-23
    assert launch.gradient_lossless


def test_passes_that_differ_by_themselves_are_no_loss(two_ranks: RankSets) -> None:
    launch = launched(two_ranks, "ddp", workload="tests.workloads_for_tests:shaky")
    assert launch.gradient_error is not None
    assert launch.gradient_error > 2**-22
    assert launch.gradient_lossless


def test_without_ddp_there_is_nothing_to_compare(two_ranks: RankSets) -> None:
    launch = launched(two_ranks, "single", "1cpu")
    assert (launch.gradient_error, launch.gradient_lossless) == (None, None)


@pytest.mark.parametrize("config", ["powersgd_rank1", "powersgd_rank1_same_shape", "bf16_powersgd_rank1"])
@pytest.mark.parametrize("warmup", [4, 6])
def test_powersgd_compresses_a_model_of_several_dtypes_in_every_measured_step(
    two_ranks: RankSets, config: str, warmup: int
) -> None:
    """Under static_graph the first step has no last bucket, and PowerSGD counts steps by last buckets."""
    launch = launched(two_ranks, config, workload="tests.workloads_for_tests:mixed", warmup=warmup)
    assert launch.gradient_error is not None
    assert launch.gradient_error > 0.1  # of a compressed step; without compression it is below 0.01


def test_what_is_no_number_is_not_called_lossy(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(INTERCONNECTS["native"])
    workload = "tests.workloads_for_tests:not_a_number"
    request = TrainRequest(workload=workload, config="ddp", world="2cpu", steps=1, warmup=4, check_gradients=True)
    asked = {"function": request.function, "arguments": to_json(request)}
    for answer in ranks.run(parse_world("2cpu"), "tests.ranks.rank_errors:tried", asked, doing=workload):
        assert "workload 'not_a_number': its gradients are not finite" in answer["error"]
