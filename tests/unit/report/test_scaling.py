"""Configs with different batches, the growth of samples/s with the devices, and the cost of DDP on one."""

from dataclasses import replace

import pytest

from fixtures.records.config_comparison import best_of
from fixtures.records.measurement import Measurement
from fixtures.records.schema import Reason
from tests.builders import DDP, lines, measured
from tests.unit.report.test_table import ALONE, NO_COMM, SINGLE, best, on_one, quiet


def larger_batch(config: str, steps_per_s: float, times: int) -> Measurement:
    """A config that trains this many times the samples in a step."""
    m = measured(config, steps_per_s)
    return replace(m, workload=replace(m.workload, batch_size=times * m.workload.batch_size))


def test_the_best_of_different_batches_trains_the_most_samples() -> None:
    slower_step = replace(quiet("static_graph", 5), workload=larger_batch("ddp", 8, 2).workload)
    assert best(slower_step, quiet("ddp", 8))[0].startswith(
        "best lossless: static_graph, 2560.0 samples/s, +25.0 % over ddp"
    )


def test_a_graph_that_beats_eager_steps_without_communication_is_no_disturbance() -> None:
    measurements = quiet("ddp", 8), quiet("no_comm", 9.5), quiet("graph-bucket_25mb", 20)
    assert not [line for line in lines(*measurements) if line.startswith("disturbed")]
    assert best(*measurements)[0].startswith("best lossless: graph-bucket_25mb")


@pytest.mark.parametrize("config", ["accumulate_4", "batch_x4", "local_sgd_8"])
def test_what_trains_something_else_is_never_best(config: str) -> None:
    (found,) = best(quiet("ddp", 8), quiet("no_comm", 9.5), quiet(config, 9))
    assert found.startswith("best lossless: ddp, ")


def test_where_batches_differ_the_table_has_samples_instead_of_steps() -> None:
    shown = lines(quiet("ddp", 8), quiet("accumulate_4", 3))
    header, rows = next(line for line in shown if line.startswith("config")), shown[3:]
    assert header.split()[1:3] == ["samples", "samples/s"]
    assert "ms/step" not in header
    samples = [line.split()[1:3] for line in rows if line.startswith(("ddp ", "accumulate_4 "))]
    batch = DDP.samples_per_step
    assert samples == [[str(4 * batch), f"{12 * batch:.1f}"], [str(batch), f"{8 * batch:.1f}"]]


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
    begin = "scaling efficiency of the fastest lossless config: "
    assert scaling(*measurements) == [begin + "2gpu 95.0, 8gpu 80.0 %", begin + "8gpu 95.0 %"]
    table = lines(*measurements)
    assert table.index(scaling(*measurements)[0]) > max(i for i, line in enumerate(table) if line.startswith("bf16 "))
    assert scaling(DDP, NO_COMM) == scaling(SINGLE, measured("ddp", 9.6, world="1gpu")) == []


@pytest.mark.parametrize(
    ("ddp", "decided"),
    [
        ([on_one("ddp", 103.1, 103, 103.2)], True),
        ([on_one("ddp", 101, 99, 100.5)], False),  # within the spread
        ([on_one("ddp", 103)], False),  # one launch
        ([on_one("ddp", 103.1, 103, 103.2), on_one("bucket_view", 100, 100.1, 100)], False),  # not at best
        ([on_one("bf16", 103.1, 103, 103.2)], False),  # lossy
        ([quiet("ddp", 8)], False),  # several
    ],
)
def test_the_model_without_ddp_is_advised_on_one_gpu_if_its_launches_decide_it(
    ddp: list[Measurement], decided: bool
) -> None:
    assert any(best.reason is Reason.WITHOUT_DDP for best in best_of([ALONE, *ddp])) is decided
