"""Expected numbers of a run from records of the same GPU: the committed records of 2, 4 and 8 H200s."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.extras.first_run.expectations import expectations, read_population
from fixtures.extras.first_run.quantities import Quantity, links_of, quantities
from fixtures.machine.gpu_links import Topology
from fixtures.records.schema import CanariesRecord, EnvironmentRecord, TestRecord, TimesRecord
from tests.builders import TRAINED

COMMITTED = Path(__file__).parents[3] / "baselines"
H200 = read_population(COMMITTED, "NVIDIA H200")


FOUR = tuple(run for run in H200.runs if run.instance == "4x-nvidia-h200-nv18")


def timed(world: str, links: str | None = "NV18", interconnect: str = "native", **canaries: float) -> list[Quantity]:
    """A run of these canaries alone, in s."""
    times = {name: TimesRecord(before_s=[time_s] * 3, after_s=[time_s]) for name, time_s in canaries.items()}
    environment = EnvironmentRecord(topology=Topology(links=links))
    return quantities(environment, {interconnect: CanariesRecord(world=world, canaries=times)}, ())


def test_the_records_of_one_gpu_are_a_population_without_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert (len(H200.runs), len(H200.instances)) == (25, 6)
    assert read_population(COMMITTED, "NVIDIA L40S").runs == ()
    assert read_population(COMMITTED / "nowhere", "NVIDIA H200").runs == ()
    shutil.copytree(COMMITTED / "8x-nvidia-h200-nv18", tmp_path / "8x-nvidia-h200-nv18")
    (tmp_path / "8x-nvidia-h200-nv18/0001_vit.json").write_text('{"schema": 1')
    assert len(read_population(tmp_path, "NVIDIA H200").runs) == 2


@pytest.mark.parametrize("instance", H200.instances)
def test_no_run_of_the_records_is_low_next_to_the_other_instances(instance: str) -> None:
    others = replace(H200, runs=tuple(run for run in H200.runs if run.instance != instance))
    for run in (run for run in H200.runs if run.instance == instance):
        compared = expectations(run.quantities, others)
        assert len(compared) >= 4
        assert [one.quantity.rate.label for one in compared if one.is_low] == []


@pytest.mark.parametrize(
    ("canary", "factor"),
    [
        ("matrix_product_4096", 1.06),
        ("device_to_device_copy_256mb", 1.07),
        ("host_to_device_copy_64mb", 2.0),
        ("all_reduce_64mb", 1.15),
        ("kernel_launches_1000", 3.0),
    ],
)
def test_a_number_that_is_lower_by_more_than_records_differ_is_low(canary: str, factor: float) -> None:
    slow = [
        replace(one, rate=replace(one.rate, value=one.rate.value / factor)) if one.name == canary else one
        for one in FOUR[-1].quantities
    ]
    assert [one.quantity.name for one in expectations(slow, H200) if one.is_low] == [canary]


def test_rates_are_those_of_data_sheets() -> None:
    now = timed("8gpu", matrix_product_4096=2.684e-3, host_to_device_copy_64mb=1.17e-3, all_reduce_64mb=3.53e-4)
    assert {one.name: f"{one.rate.value:.1f} {one.rate.unit}" for one in now} == {
        "matrix_product_4096": "51.2 TFLOP/s",
        "host_to_device_copy_64mb": "54.7 GB/s",
        "all_reduce_64mb": "317.3 GB/s",
    }


def test_canaries_of_an_unknown_kind_or_of_the_cpu_are_no_quantities() -> None:
    assert timed("2gpu", matrix_product_bf16=1e-3, all_reduce_64kb=1e-5, sparse_product_4096=1e-3) == []
    assert timed("2cpu", matrix_product_256=1e-4, all_reduce_4mb=3e-3, memory_copy_16mb=2e-3) == []


@pytest.mark.parametrize(
    ("canary", "interconnect", "ranks"),
    [
        # A copy from the host: as many ranks or the next more. Bus bandwidth: as many or the next fewer.
        ("host_to_device_copy_64mb", "native", {1: [2], 2: [2], 3: [4], 8: [8], 16: []}),
        ("all_reduce_64mb", "native", {2: [2], 3: [2], 6: [4], 16: [8]}),
        # Latency, and what goes through the host: as many.
        ("all_reduce_1mb", "native", {4: [4], 6: []}),
        ("all_reduce_64mb", "shm", {4: [4], 6: []}),
    ],
)
def test_records_of_which_numbers_of_gpus_a_canary_is_compared_with(
    canary: str, interconnect: str, ranks: dict[int, list[int]]
) -> None:
    for size, expected in ranks.items():
        found = expectations(timed(f"{size}gpu", interconnect=interconnect, **{canary: 1e-3}), H200)  # type: ignore[arg-type]
        assert [{record.ranks for record in one.records} for one in found] == [{one} for one in expected], size


def test_the_same_links_come_first_and_others_are_better_than_none() -> None:
    pcie = replace(FOUR[0], instance="4x-pcie", quantities=tuple(timed("4gpu", "SYS", all_reduce_64mb=3e-3)))
    both = replace(H200, runs=(*H200.runs, pcie))
    now = timed("4gpu", "SYS", all_reduce_64mb=3e-3)
    ((of_both,), (of_others,)) = expectations(now, both), expectations(now, H200)
    assert of_both.expected == pytest.approx(32)
    assert of_others.expected > 300


def test_what_a_canary_of_two_interconnects_times_on_one_gpu_counts_once() -> None:
    now = [
        *timed("4gpu", matrix_product_4096=2.7e-3, all_reduce_64mb=3e-4),
        *timed("4gpu", interconnect="shm", matrix_product_4096=2.7e-3, all_reduce_64mb=4e-3),
    ]
    names = [one.quantity.name for one in expectations(now, H200)]
    assert names == ["matrix_product_4096", "all_reduce_64mb", "all_reduce_64mb"]


def of_single(**more: object) -> list[Quantity]:
    info = TestRecord(
        workload="vit_l_32",
        config="single",
        world_size=1,
        backend="nccl",
        interconnect="native",
        launch_medians_s=[0.1],
        steps_per_s=10.0,
        **more,  # type: ignore[arg-type]
    )
    return quantities(EnvironmentRecord(), {}, [info])


def test_the_step_of_one_gpu_is_compared_with_that_of_every_instance_unless_the_host_limits_it() -> None:
    assert of_single(host_lead_ms=0.1) == []
    (one,) = expectations(of_single(), H200)
    assert one.expected == pytest.approx(11.93, abs=0.01)
    assert len(one.records) >= 15
    assert one.is_low


def test_a_test_of_another_workload_under_the_same_name_is_not_compared() -> None:
    now, other = (of_single(workload_fingerprint=replace(TRAINED, batch_size=size)) for size in (32, 64))
    population = replace(H200, runs=(replace(H200.runs[0], quantities=tuple(now)),))
    assert [len(expectations(one, population)) for one in (now, other)] == [1, 0]


def test_two_records_say_nothing_about_how_far_machines_lie_apart() -> None:
    now = timed("4gpu", host_to_device_copy_64mb=1.5e-3)
    (one,) = expectations(now, replace(H200, runs=FOUR[:2]))

    def low(percent: float) -> bool:
        rate = replace(now[0].rate, value=one.expected * (1 - percent / 100))
        return replace(one, quantity=replace(now[0], rate=rate)).is_low

    assert (low(19), low(21)) == (False, True)


@pytest.mark.parametrize(
    ("links", "kinds"), [("4 x NV4, 24 x SYS", {"NV4", "SYS"}), ("", set()), (" ", set()), ("1 x NV18,  ", {"NV18"})]
)
def test_kinds_of_links_are_read_where_there_are_some(links: str, kinds: set[str]) -> None:
    assert links_of(EnvironmentRecord(topology=Topology(links=links))) == kinds
