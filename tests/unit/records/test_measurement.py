"""What a measurement says of its gradients, MFU, and the bandwidth of bare transfers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.launch.protocol import WorkloadFingerprint
from fixtures.machine.nccl_log import Fingerprint
from fixtures.machine.topology import limit_gb_per_s
from fixtures.matrix.recorded import json_of
from fixtures.matrix.transfers import KINDS, LARGE_ALL_REDUCES, MORE_COLLECTIVES, TRANSFERS
from fixtures.matrix.worlds import INTERCONNECTS, World, parse_world
from fixtures.records.baselines import Recorded
from fixtures.records.differences import Snapshot
from fixtures.records.measurement import Launch, Measurement, TimedLaunch, Transfers, mfu_percent, peak_flops_per_s
from fixtures.records.schema import UNKNOWN, TestRecord
from tests.builders import BF16_LOSS, TRAINED, launch, measured

COMPARED = replace(launch(0.1), gradient_error=0.0, gradient_lossless=True)
NOT_COMPARED = replace(launch(0.1), gradient_error=None)


@pytest.mark.parametrize(
    ("config", "world", "of", "fidelity"),
    [
        ("ddp", "8gpu", COMPARED, "lossless"),
        ("ddp", "8gpu", NOT_COMPARED, "not compared"),
        ("bf16", "8gpu", NOT_COMPARED, "not compared"),
        ("bf16", "1gpu", NOT_COMPARED, "not compared"),
        ("as_written", "8gpu", NOT_COMPARED, "not compared"),
        ("no_comm", "8gpu", NOT_COMPARED, "limit"),
        # One rank has nobody to exchange gradients with.
        ("single", "1gpu", NOT_COMPARED, "lossless"),
        ("ddp", "1gpu", NOT_COMPARED, "lossless"),
        ("ddp", "8gpu", replace(COMPARED, wrong="the ranks train different models"), "wrong"),
    ],
)
def test_the_word_of_the_gradients_needs_its_proof(config: str, world: str, of: Launch, fidelity: str) -> None:
    found = measured(config, 10, world=world, launches=(of,))
    assert found.fidelity == fidelity
    assert found.to_record().fidelity == fidelity
    assert found.to_record().lossless is (fidelity == "lossless")


@pytest.mark.parametrize("buffers", [0, 3])
def test_without_communication_no_buffers_are_broadcast_and_older_records_of_them_are_others(buffers: int) -> None:
    of = replace(COMPARED, workload_fingerprint=replace(TRAINED, buffers=buffers))
    settings = [measured(config, 10, launches=(of,)).ddp_settings for config in ("no_comm", "bf16")]
    assert ["broadcast_buffers" in one for one in settings] == [buffers > 0, False]
    assert [measured(config, 10, launches=(of,)).broadcasts for config in ("no_comm", "bf16")] == [False, buffers > 0]


def test_a_setting_that_the_training_cannot_have_is_in_no_record() -> None:
    of = replace(COMPARED, left_out=["static_graph"], remarks=["static_graph is left out"])
    record = measured("bf16", 10, launches=(of,)).to_record()
    assert record.config_fingerprint is not None
    assert "static_graph" not in (record.config_fingerprint.ddp_arguments or {})
    assert record.remarks == ["static_graph is left out"]


@pytest.mark.parametrize("left_out", [[], ["static_graph"]])
def test_a_setting_that_the_training_cannot_have_is_not_pasted(left_out: list[str]) -> None:
    lines = measured("bucket_10mb", 10, launches=(replace(COMPARED, left_out=left_out),)).lines
    assert any("bucket_cap_mb=10" in line for line in lines)
    assert any("static_graph" in line for line in lines) != bool(left_out)


@pytest.mark.parametrize(
    ("config", "launches_s", "number"),
    [
        ("as_written", [[*[1.0] * 14, 3.0, 3.0], [*[1.0] * 12, 3.0, 3.0, 3.0]], 3),
        ("as_written", [[*[1.0] * 14, 3.0, 3.0]] * 2 + [[1.0] * 16], 2),  # in most launches
        ("as_written", [[1.0] * 20, [1.0] * 20, [1.5] * 20], None),  # a slow launch
        ("as_written", [[*[1.0] * 14, 3.0, 3.0], [1.0] * 16], None),
        ("bf16", [[*[1.0] * 14, 3.0, 3.0]], None),  # told once, of the script as written
    ],
)
def test_longer_steps_are_those_of_most_launches(
    config: str, launches_s: list[list[float]], number: int | None
) -> None:
    launches = tuple(replace(COMPARED, step_s=tuple(step_s)) for step_s in launches_s)
    found = measured(config, 1, launches=launches).to_record().longer_steps
    assert (None if found is None else found.number) == number


# MFU of measurements made by hand: operations a second over the peak of the arithmetic in which they run


H100 = "NVIDIA H100 80GB HBM3"
FP32 = replace(TRAINED, cudnn_allow_tf32=True)
TF32 = replace(FP32, float32_matmul_precision="high")
AUTOCAST = replace(FP32, activation_dtypes=["bfloat16", "float32"])


def counted(
    trained: WorkloadFingerprint | None, *, products: float = 91e9, convolutions: float = 0, world: str = "8gpu"
) -> Measurement:
    """Ten steps of 32 samples a second."""
    one = replace(
        launch(0.1),
        workload_fingerprint=trained,
        flops_per_sample={"matrix product": products, "convolution": convolutions},
    )
    return measured("ddp", 10, world=world, launches=(one, launch(0.1)))


@pytest.mark.parametrize(("trained", "tflops"), [(FP32, 67), (TF32, 494.5), (AUTOCAST, 989.5)])
def test_mfu_is_against_the_peak_of_the_arithmetic(trained: WorkloadFingerprint, tflops: float) -> None:
    m = counted(trained)
    assert m.flops_per_step == pytest.approx(8 * 32 * 91e9)
    assert peak_flops_per_s(m, H100) == pytest.approx(1e12 * tflops)
    assert mfu_percent(m, H100) == pytest.approx(100 * 10 * 32 * 91e9 / (1e12 * tflops))
    assert m.to_record().flops_per_step == m.flops_per_step


def test_convolutions_and_products_count_each_against_its_own_peak() -> None:
    m = counted(FP32, products=67e9, convolutions=494.5e9)  # 1 ms each
    assert peak_flops_per_s(m, H100) == pytest.approx((67e9 + 494.5e9) / 2e-3)
    assert mfu_percent(counted(FP32, products=0, convolutions=494.5e9), H100) == pytest.approx(32)
    one = replace(launch(0.1), uncounted="RuntimeError: no formula")
    record = measured("ddp", 10, launches=(one,)).to_record()
    assert (record.flops_per_step, record.uncounted) == (None, "RuntimeError: no formula")


@pytest.mark.parametrize(
    ("m", "gpu"),
    [
        (counted(FP32), "NVIDIA Tomorrow"),
        (counted(FP32), None),
        (counted(FP32, world="2cpu"), H100),
        (counted(None), H100),
        (counted(FP32, products=0), H100),
        (counted(replace(FP32, float32_matmul_precision=None)), H100),
        (counted(replace(FP32, parameter_dtypes=["float64"])), H100),
        (counted(AUTOCAST), "Tesla T4"),
        (measured("ddp", 10), H100),
    ],
)
def test_without_a_peak_or_operations_there_is_no_mfu(m: Measurement, gpu: str | None) -> None:
    assert mfu_percent(m, gpu) is None


# The bandwidth of bare transfers: its arithmetic and the links' limit


def all_reduces(
    ranks: int,
    *launches_s: tuple[float, ...],
    link_gb_per_s: float | None = None,
    nvls_channels: int | None = 0,
    transfer: str = "all_reduce_1gb",
) -> Transfers:
    return Transfers(
        transfer=TRANSFERS[transfer],
        world=World(backend="nccl", size=ranks),
        interconnect=INTERCONNECTS["native"],
        launches=tuple(
            TimedLaunch(step_s=steps, fingerprint=Fingerprint(nvls_channels=nvls_channels)) for steps in launches_s
        ),
        link_gb_per_s=link_gb_per_s,
    )


def of_limit_percent(moved: Transfers) -> float:
    assert moved.limit_gb_per_s is not None
    return 100 * moved.bus_gb_per_s / moved.limit_gb_per_s


def test_eight_ranks_send_seven_quarters_of_the_bytes_in_the_mean_of_the_launches() -> None:
    moved = all_reduces(8, (0.004,), link_gb_per_s=450)
    assert moved.algorithm_gb_per_s == pytest.approx(268.435456)  # 2^30 B in 4 ms
    assert moved.bus_gb_per_s == pytest.approx(469.762048)
    assert of_limit_percent(moved) == pytest.approx(104.39156)
    assert all_reduces(2, (0.001, 0.002, 9), (0.008,)).seconds_per_step == pytest.approx(0.004)


def test_with_nvls_the_limit_is_that_of_a_sum_in_the_switch() -> None:
    """8 x H100 reach 480 GB/s of bus bandwidth with NVLS (github.com/NVIDIA/nccl-tests/issues/212)."""
    seconds = 2 * 7 / 8 * 2**30 / 480e9
    moved = all_reduces(8, (seconds,), link_gb_per_s=450, nvls_channels=16)
    assert moved.limit_gb_per_s == pytest.approx(700)
    assert of_limit_percent(moved) == pytest.approx(68.571, abs=1e-3)
    assert moved.to_record().link_limit_gb_per_s == pytest.approx(700)


@given(ranks=st.integers(2, 64), link_gb_per_s=st.floats(1, 1000))
def test_links_that_are_always_busy_are_at_100_percent(ranks: int, link_gb_per_s: float) -> None:
    """Bytes that a rank's links carry in one direction: in a ring, and where the switch sums."""
    size = TRANSFERS["all_reduce_1gb"].bytes
    ring_s, switch_s = (carried * size / ranks / link_gb_per_s / 1e9 for carried in (2 * (ranks - 1), ranks + 1))
    ring = all_reduces(ranks, (ring_s,), link_gb_per_s=link_gb_per_s)
    fastest = all_reduces(ranks, (min(ring_s, switch_s),), link_gb_per_s=link_gb_per_s, nvls_channels=16)
    assert of_limit_percent(ring) == pytest.approx(100)
    assert of_limit_percent(fastest) == pytest.approx(100)


@pytest.mark.parametrize(
    ("link", "version", "limit"),
    [
        ("nv18", 6, 450),  # H100, H200: 900 GB/s in both directions
        ("nv12", 5, 300),  # A100: 600, NVLink 3.1
        ("nv18", 7, 900),  # B200: 1800
        ("nv4", 1, 80),  # P100: 160
        ("nv18", 99, None),
        ("nv18", None, None),
        ("sys", 6, None),
        (None, 6, None),
    ],
)
def test_the_limit_is_the_version_times_the_links(link: str | None, version: int | None, limit: float | None) -> None:
    assert limit_gb_per_s(link, version) == limit


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_to_all"])
def test_in_other_collectives_each_rank_sends_all_parts_but_one_also_with_nvls(kind: str) -> None:
    moved = all_reduces(8, (0.001,), link_gb_per_s=450, nvls_channels=16, transfer=f"{kind}_256mb")
    assert moved.bus_gb_per_s == pytest.approx(7 / 8 * 2**28 / 1e6)  # 256 MB in 1 ms, in GB/s
    assert moved.limit_gb_per_s == 450
    record = moved.to_record()
    assert (record.workload, record.config) == (kind, f"{kind}_256mb")
    assert record.transfer_s == pytest.approx(0.001)
    assert record.all_reduce_s is None


def test_a_copy_moves_its_bytes_once_over_each_gpus_own_link() -> None:
    moved = all_reduces(8, (0.01,), link_gb_per_s=63, nvls_channels=16, transfer="device_to_host_pageable_256mb")
    assert moved.algorithm_gb_per_s == pytest.approx(26.8435456)
    assert moved.limit_gb_per_s == 63
    assert of_limit_percent(moved) == pytest.approx(42.6088)
    record = moved.to_record()
    assert (record.workload, record.message_bytes) == ("device_to_host_pageable", 2**28)
    assert (record.bus_gb_per_s, record.all_reduce_s) == (None, None)


def test_a_message_has_whole_numbers_for_each_rank() -> None:
    assert TRANSFERS["all_reduce_8b"].message_bytes(8) == 8
    assert TRANSFERS["all_gather_8b"].message_bytes(2) == 8
    assert TRANSFERS["all_gather_8b"].message_bytes(8) == 32
    assert TRANSFERS["all_to_all_64kb"].message_bytes(3) == 65532


def test_the_curves_go_from_8_bytes_to_2_gb_on_gpus_and_to_less_on_the_cpu() -> None:
    for world, largest in (("2gpu", {"all_reduce": 2 * 1024**3}), ("2cpu", {})):
        of_both = [TRANSFERS[name] for name in (*LARGE_ALL_REDUCES, *MORE_COLLECTIVES)]
        moved = [transfer for transfer in of_both if transfer.why_not(parse_world(world)) is None]
        for kind in (name for name, kind in KINDS.items() if not kind.copy):
            sizes = sorted(transfer.bytes for transfer in moved if transfer.kind.name == kind)
            assert (sizes[0], sizes[-1]) == (8, largest.get(kind, (256 if world == "2gpu" else 16) * 1024**2))
            assert len(sizes) >= 3  # for the fit of latency and bandwidth


SEEDS = "as written differs by 0.6 % between seeds"


def test_a_loss_that_is_not_finite_has_no_change() -> None:
    gone = replace(BF16_LOSS, word="higher", change_percent=None, interval_percent=None, not_finite_from=34)
    assert gone.words == f"loss not finite from step 34 on ({SEEDS})"


def test_it_says_where_the_same_seed_does_not_repeat_and_what_decides_more() -> None:
    open_ = replace(BF16_LOSS, word="open", repeats_percent=0.25)
    assert f"{SEEDS}, by 0.2 % with the same seed" in open_.words
    assert open_.words.endswith(": not decided; more --minutes decide it")


TWO = (launch(0.1), launch(0.1))


OF_ANOTHER_STREAM = (
    *("bf16", "no_comm", "in_backward-bucket_25mb", "local_sgd_8"),
    *("compile-ddp_optimizer", "graph-bucket_25mb", "feed_prefetch", "checkpoint_copy"),
)


@pytest.mark.parametrize("config", ["ddp_default", "bucket_view", "fsdp2", "batch_x2", *OF_ANOTHER_STREAM])
def test_the_memory_of_steps_is_recorded_unless_another_stream_uses_it(config: str) -> None:
    expected = None if config in OF_ANOTHER_STREAM else 2_900_000_000
    assert json_of(measured(config, 10, launches=TWO).to_record()).get("steady_memory_bytes") == expected


def test_nor_is_that_of_launches_that_differ_or_of_a_single_one() -> None:
    for other in (2_950_000_000, None):
        launches = launch(0.1), replace(launch(0.1), steady_memory_bytes=other)
        assert "steady_memory_bytes" not in json_of(measured("ddp_default", 10, launches=launches).to_record())


def recorded(*records: tuple[str | None, int | None, int]) -> Recorded:
    """Records 1, 2, ... with this torch, memory and batch."""
    found = Recorded(workload="vit_l_32")
    for number, (torch, steady, batch) in enumerate(records, 1):
        info = TestRecord(
            workload="vit_l_32",
            launch_medians_s=[0.1],
            steady_memory_bytes=steady,
            workload_fingerprint=replace(TRAINED, batch_size=batch),
        )
        found.add(str(number), Snapshot(info=info, environment=replace(UNKNOWN, torch=torch)), {})
    return found


def test_of_each_torch_the_newest_record_of_the_same_workload_with_the_key_counts() -> None:
    four = ("2.11", 100, 32), ("2.12", 200, 32), ("2.11", 300, 32), ("2.11", None, 32)
    assert recorded(*four, (None, 500, 32)).steady_memory_bytes == {"2.11": ("3", 300), "2.12": ("2", 200)}
    assert recorded(("2.11", 100, 32), ("2.12", 200, 64)).steady_memory_bytes == {"2.12": ("2", 200)}
