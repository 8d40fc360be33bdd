"""Configs with different batches, the growth of samples/s with the devices, and the cost of DDP on one."""

from dataclasses import replace

import pytest

from fixtures.matrix.configs import CONFIGS
from fixtures.matrix.worlds import parse_world
from fixtures.records.config_comparison import is_faster, on_one_device
from fixtures.records.measurement import Measurement
from fixtures.session.run_advice import alone_record
from tests.builders import DDP, launch, lines, measured
from tests.unit.report.test_table import NO_COMM, SINGLE, beside, best, launched, quiet


def larger_batch(config: str, steps_per_s: float, times: int) -> Measurement:
    """A config that trains this many times the samples in a step."""
    m = measured(config, steps_per_s)
    return replace(m, workload=replace(m.workload, batch_size=times * m.workload.batch_size))


def test_configs_with_different_batches_are_compared_in_samples() -> None:
    """Twice the batch in 1.6 times the step is 1.25 times as fast."""
    twice = larger_batch("bf16", 5, 2)
    compared = beside(twice, DDP, NO_COMM, SINGLE)
    assert compared.against_naive_percent == pytest.approx(25)
    assert compared.of_limit_percent == pytest.approx(100 * 10 / 9.5)
    assert compared.scaling_efficiency_percent == pytest.approx(100)
    assert is_faster(replace(twice, launches=(launch(0.2), launch(0.2001))), quiet("ddp", 8))


def test_the_best_of_different_batches_trains_the_most_samples() -> None:
    slower_step = replace(quiet("static_graph", 5), workload=larger_batch("ddp", 8, 2).workload)
    assert best(slower_step, quiet("ddp", 8))[0].startswith(
        "best lossless: static_graph, 2560.0 samples/s, +25.0 % over ddp"
    )


def test_a_config_is_compared_with_what_computes_in_the_same_way() -> None:
    """A graph has the limit of graphs and scales against one graph; it is compared with eager DDP all the same."""
    graph = measured("graph-bucket_25mb", 20)
    eager = (SINGLE, DDP, NO_COMM)
    compared = beside(
        graph, *eager, measured("graph-no_comm-bucket_25mb", 25), measured("single_graph", 32, world="1gpu")
    )
    assert compared.of_limit_percent == pytest.approx(80)
    assert compared.scaling_efficiency_percent == pytest.approx(62.5)
    assert compared.against_naive_percent == pytest.approx(150)
    assert compared.against_single_percent == pytest.approx(100)
    alone = beside(graph, *eager)
    assert (alone.of_limit_percent, alone.scaling_efficiency_percent) == (None, None)
    assert beside(DDP, *eager, measured("graph-no_comm-bucket_25mb", 25)).of_limit_percent == pytest.approx(800 / 9.5)


def test_a_graph_that_beats_eager_steps_without_communication_is_no_disturbance() -> None:
    shown = lines(quiet("ddp", 8), quiet("no_comm", 9.5), quiet("graph-bucket_25mb", 20))
    assert not [line for line in shown if line.startswith("disturbed")]
    assert best(quiet("ddp", 8), quiet("no_comm", 9.5), quiet("graph-bucket_25mb", 20))[0].startswith(
        "best lossless: graph-bucket_25mb"
    )


@pytest.mark.parametrize("config", ["accumulate_4", "batch_x4", "local_sgd_8"])
def test_what_trains_something_else_is_never_best(config: str) -> None:
    (found,) = best(quiet("ddp", 8), quiet("no_comm", 9.5), quiet(config, 9))
    assert found.startswith("best lossless: ddp, ")


def test_accumulated_batches_have_no_limit_of_plain_steps() -> None:
    """They save optimizer steps as well."""
    compared = beside(measured("accumulate_4", 9), SINGLE, DDP, NO_COMM)
    assert (compared.of_limit_percent, compared.communication_percent, compared.scaling_efficiency_percent) == (
        None,
    ) * 3
    assert compared.against_naive_percent == pytest.approx(350)


def test_another_optimizer_is_not_compared_with_the_workloads() -> None:
    compared = beside(measured("adamw", 9), SINGLE, DDP, NO_COMM)
    assert (compared.against_naive_percent, compared.against_single_percent, compared.of_limit_percent) == (None,) * 3


def test_every_way_of_compiling_has_the_limit_of_the_compiled() -> None:
    compared = beside(measured("compile-ddp_optimizer", 8), NO_COMM, measured("compile-no_comm", 16))
    assert compared.of_limit_percent == pytest.approx(50)


def test_where_batches_differ_the_table_has_samples_instead_of_steps() -> None:
    shown = lines(quiet("ddp", 8), quiet("accumulate_4", 3))
    header, rows = next(line for line in shown if line.startswith("config")), shown[3:]
    assert header.split()[1:3] == ["samples", "samples/s"]
    assert "ms/step" not in header
    samples = [line.split()[1:3] for line in rows if line.startswith(("ddp ", "accumulate_4 "))]
    batch = DDP.samples_per_step
    assert samples == [[str(4 * batch), f"{12 * batch:.1f}"], [str(batch), f"{8 * batch:.1f}"]]


def test_scaling_is_efficient_where_every_rank_is_as_fast_as_one_device() -> None:
    compared = beside(measured("ddp", 9), SINGLE)
    assert compared.scaling_efficiency_percent == pytest.approx(90)
    assert beside(SINGLE).scaling_efficiency_percent == pytest.approx(100)
    assert beside(DDP, measured("single", 10, world="1gpu", interconnect="shm")).scaling_efficiency_percent is None


def test_communication_is_what_the_step_has_over_that_of_the_limit() -> None:
    """Steps of 125 and 100 ms: 25 of 125 are communication."""
    assert beside(DDP, measured("no_comm", 10)).communication_percent == pytest.approx(20)
    assert beside(DDP).communication_percent is None


def scaling(*measurements: Measurement) -> list[str]:
    return [line for line in lines(*measurements) if line.startswith("scaling efficiency")]


def test_the_largest_world_has_a_line_on_how_the_fastest_lossless_config_scales() -> None:
    measurements = [
        *(SINGLE, measured("ddp", 9.6, world="1gpu")),
        *(measured("ddp", 9, world="2gpu"), measured("bucket_10mb", 9.5, world="2gpu")),
        *(DDP, measured("bucket_10mb", 7.9), measured("bf16", 9.9), NO_COMM, measured("graph-bucket_10mb", 9.9)),
        *(measured("single", 20, world="1gpu", workload="resnet50"), measured("ddp", 19, workload="resnet50")),
        measured("ddp", 5, interconnect="shm"),
    ]
    begin = "scaling efficiency of the fastest lossless: "
    assert scaling(*measurements) == [
        begin + "2gpu 95.0, 8gpu 80.0 %",
        begin + "8gpu 95.0 %",
    ]
    table = lines(*measurements)
    assert table.index(scaling(*measurements)[0]) > max(i for i, line in enumerate(table) if line.startswith("bf16 "))


def test_without_one_device_or_with_one_device_only_nothing_scales() -> None:
    assert scaling(DDP, NO_COMM) == scaling(SINGLE, measured("ddp", 9.6, world="1gpu")) == []


def on_one(config: str, *ms: float) -> Measurement:
    return replace(launched(config, *ms), world=parse_world("1gpu"))


ALONE = on_one("single", 100, 100.1, 99.9)


def test_on_one_gpu_ddp_costs_what_was_measured() -> None:
    table = lines(ALONE, on_one("ddp", 103.1, 103, 103.2))
    advice = "one GPU: train without DDP, it costs 3.0 % (ddp against single)"
    assert [line for line in table if line.startswith("one ")] == [advice]


def test_ddp_in_a_cuda_graph_is_not_compared_with_one_gpu_without_a_graph() -> None:
    graph = next(name for name, config in CONFIGS.items() if config.graph and config.ddp and config.hook == "none")
    found = on_one_device([ALONE, on_one("ddp", 103.1, 103, 103.2), on_one(graph, 80, 80.1, 80.2)])
    assert [one.ddp.config.name for one in found] == ["ddp"]


@pytest.mark.parametrize(
    "ddp",
    [
        [on_one("ddp", 101, 99, 100.5)],  # within the spread
        [on_one("ddp", 103)],  # one launch
        [on_one("ddp", 103.1, 103, 103.2), on_one("bucket_view", 100, 100.1, 100)],  # not at best
        [on_one("bf16", 103.1, 103, 103.2)],  # lossy
        [quiet("ddp", 8)],  # several
    ],
)
def test_a_cost_on_one_gpu_that_is_not_decided_is_not_said(ddp: list[Measurement]) -> None:
    assert [line for line in lines(ALONE, *ddp) if line.startswith("one ")] == []


def test_the_advice_to_train_without_ddp_has_both_steps_in_the_record() -> None:
    (found,) = on_one_device([ALONE, on_one("ddp", 103.1, 103, 103.2)])
    record = alone_record(found)
    assert record.config == "single"
    assert record.step_ms == pytest.approx(103.1)
    assert record.expected_ms == record.measured_ms == pytest.approx(100)
