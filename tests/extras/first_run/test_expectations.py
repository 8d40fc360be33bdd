"""Expected numbers of a run from records of the same GPU: the committed records of 2, 4 and 8 H200s."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fixtures.extras.first_run.expectations import Expectation, Population, expectations, read_population
from fixtures.extras.first_run.facts import FirstRunRecord
from fixtures.extras.first_run.quantities import Quantity, links_of, quantities
from fixtures.launch.protocol import WorkloadFingerprint
from fixtures.machine.gpu_links import Topology
from fixtures.matrix.recorded import json_of
from fixtures.records.schema import CanariesRecord, EnvironmentRecord, TestRecord, TimesRecord
from tests.builders import TRAINED

COMMITTED = Path(__file__).parents[3] / "baselines"
H200 = read_population(COMMITTED, "NVIDIA H200")


def only(*instances: str) -> Population:
    return replace(H200, runs=tuple(run for run in H200.runs if run.instance in instances))


def without(instance: str) -> Population:
    return replace(H200, runs=tuple(run for run in H200.runs if run.instance != instance))


def by_name(now: list[Quantity], population: Population) -> dict[str, Expectation]:
    return {one.quantity.name: one for one in expectations(now, population)}


def timed(world: str, links: str | None = "NV18", interconnect: str = "native", **canaries: float) -> list[Quantity]:
    """A run of these canaries alone, in s."""
    times = {name: TimesRecord(before_s=[time_s] * 3, after_s=[time_s]) for name, time_s in canaries.items()}
    environment = EnvironmentRecord(topology=Topology(links=links))
    return quantities(environment, {interconnect: CanariesRecord(world=world, canaries=times)}, ())


def test_the_records_of_one_gpu_are_a_population() -> None:
    assert (len(H200.runs), len(H200.instances)) == (22, 6)
    assert read_population(COMMITTED, "NVIDIA L40S").runs == ()
    assert read_population(COMMITTED / "nowhere", "NVIDIA H200").runs == ()


def test_the_key_of_every_committed_record_is_read_and_written_back_as_it_was() -> None:
    found = [json.loads(file.read_text()).get("first_run") for file in COMMITTED.glob("*/*.json")]
    keys = [key for key in found if key is not None]
    assert len(keys) == 2
    assert [json_of(msgspec.convert(key, FirstRunRecord)) for key in keys] == keys


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    shutil.copytree(COMMITTED / "8x-nvidia-h200-nv18", tmp_path / "8x-nvidia-h200-nv18")
    (tmp_path / "8x-nvidia-h200-nv18/0001_vit.json").write_text('{"schema": 1')
    assert len(read_population(tmp_path, "NVIDIA H200").runs) == 2


@pytest.mark.parametrize("instance", H200.instances)
def test_no_run_of_the_records_is_low_next_to_the_other_instances(instance: str) -> None:
    for run in only(instance).runs:
        compared = expectations(run.quantities, without(instance))
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
    newest = only("4x-nvidia-h200-nv18").runs[-1].quantities
    slow = [
        replace(one, rate=replace(one.rate, value=one.rate.value / factor)) if one.name == canary else one
        for one in newest
    ]
    assert [one.quantity.name for one in expectations(slow, H200) if one.is_low] == [canary]


def test_rates_are_those_of_data_sheets() -> None:
    now = timed("8gpu", matrix_product_4096=2.684e-3, host_to_device_copy_64mb=1.17e-3, all_reduce_64mb=3.53e-4)
    assert {one.name: f"{one.rate.value:.1f} {one.rate.unit}" for one in now} == {
        "matrix_product_4096": "51.2 TFLOP/s",
        "host_to_device_copy_64mb": "54.7 GB/s",
        "all_reduce_64mb": "317.3 GB/s",
    }


def test_a_canary_of_an_unknown_kind_is_no_quantity() -> None:
    assert timed("2gpu", matrix_product_bf16=1e-3, all_reduce_64kb=1e-5, sparse_product_4096=1e-3) == []


def test_canaries_of_the_cpu_are_no_quantities() -> None:
    assert timed("2cpu", matrix_product_256=1e-4, all_reduce_4mb=3e-3, memory_copy_16mb=2e-3) == []


def ranks_of(one: Expectation) -> set[int]:
    return {record.ranks for record in one.records}


@pytest.mark.parametrize(("world", "ranks"), [("1gpu", {2}), ("2gpu", {2}), ("3gpu", {4}), ("8gpu", {8})])
def test_a_copy_from_the_host_is_compared_with_as_many_ranks_or_the_next_more(world: str, ranks: set[int]) -> None:
    (one,) = expectations(timed(world, host_to_device_copy_64mb=1.2e-3), H200)
    assert ranks_of(one) == ranks


def test_a_copy_from_the_host_is_not_compared_with_fewer_ranks() -> None:
    assert expectations(timed("16gpu", host_to_device_copy_64mb=1.2e-3), H200) == []


@pytest.mark.parametrize(("world", "ranks"), [("2gpu", {2}), ("3gpu", {2}), ("6gpu", {4}), ("16gpu", {8})])
def test_bus_bandwidth_is_compared_with_as_many_gpus_or_the_next_fewer(world: str, ranks: set[int]) -> None:
    (one,) = expectations(timed(world, all_reduce_64mb=3e-4), H200)
    assert ranks_of(one) == ranks


@pytest.mark.parametrize(("canary", "interconnect"), [("all_reduce_1mb", "native"), ("all_reduce_64mb", "shm")])
def test_latency_and_the_host_are_compared_with_as_many_gpus_only(canary: str, interconnect: str) -> None:
    for world, compared in (("4gpu", 1), ("6gpu", 0)):
        assert len(expectations(timed(world, interconnect=interconnect, **{canary: 1e-3}), H200)) == compared  # type: ignore[arg-type]


def test_the_same_links_come_first_and_others_are_better_than_none() -> None:
    pcie = replace(
        only("4x-nvidia-h200-nv18").runs[0],
        instance="4x-pcie",
        quantities=tuple(timed("4gpu", "SYS", all_reduce_64mb=3e-3)),
    )
    both = replace(H200, runs=(*H200.runs, pcie))
    assert by_name(timed("4gpu", "SYS", all_reduce_64mb=3e-3), both)["all_reduce_64mb"].expected == pytest.approx(32)
    assert by_name(timed("4gpu", "SYS", all_reduce_64mb=3e-3), H200)["all_reduce_64mb"].expected > 300


def test_what_a_canary_of_two_interconnects_times_on_one_gpu_counts_once() -> None:
    now = [
        *timed("4gpu", matrix_product_4096=2.7e-3, all_reduce_64mb=3e-4),
        *timed("4gpu", interconnect="shm", matrix_product_4096=2.7e-3, all_reduce_64mb=4e-3),
    ]
    assert [one.quantity.name for one in expectations(now, H200)] == [
        "matrix_product_4096",
        "all_reduce_64mb",
        "all_reduce_64mb",
    ]


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


def test_the_step_of_one_gpu_is_compared_with_that_of_every_instance() -> None:
    one = by_name(of_single(), H200)["vit_l_32/single"]
    assert one.expected == pytest.approx(11.93, abs=0.01)
    assert len(one.records) >= 15
    assert one.is_low


def _of_batch(size: int) -> WorkloadFingerprint:
    return replace(TRAINED, batch_size=size)


@pytest.mark.parametrize(("batch", "compared"), [(32, 1), (64, 0)])
def test_a_test_of_another_workload_under_the_same_name_is_not_compared(batch: int, compared: int) -> None:
    (recorded,) = of_single(workload_fingerprint=_of_batch(32))
    population = replace(H200, runs=(replace(H200.runs[0], quantities=(recorded,)),))
    assert len(expectations(of_single(workload_fingerprint=_of_batch(batch)), population)) == compared


def test_a_step_that_the_host_limits_is_no_quantity() -> None:
    assert of_single(host_lead_ms=0.1) == []


def test_two_records_say_nothing_about_how_far_machines_lie_apart() -> None:
    now = timed("4gpu", host_to_device_copy_64mb=1.5e-3)
    few = replace(H200, runs=only("4x-nvidia-h200-nv18").runs[:2])
    (one,) = expectations(now, few)

    def low(percent: float) -> bool:
        rate = replace(now[0].rate, value=one.expected * (1 - percent / 100))
        return replace(one, quantity=replace(now[0], rate=rate)).is_low

    assert (low(19), low(21)) == (False, True)


@pytest.mark.parametrize(
    ("links", "kinds"),
    [("4 x NV4, 24 x SYS", {"NV4", "SYS"}), ("", set()), (" ", set()), ("1 x NV18,  ", {"NV18"})],
)
def test_kinds_of_links_are_read_where_there_are_some(links: str, kinds: set[str]) -> None:
    assert links_of(EnvironmentRecord(topology=Topology(links=links))) == kinds
