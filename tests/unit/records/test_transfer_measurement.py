"""The bandwidth of bare transfers: its arithmetic and the links' limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.gpu_links import limit_gb_per_s
from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.transfers import KINDS, LARGE_ALL_REDUCES, MORE_COLLECTIVES, TRANSFERS
from fixtures.matrix.worlds import INTERCONNECTS, World, parse_world
from fixtures.records.measurement import TimedLaunch, Transfers


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


def of_limit_percent(measured: Transfers) -> float:
    assert measured.limit_gb_per_s is not None
    return 100 * measured.bus_gb_per_s / measured.limit_gb_per_s


def test_eight_ranks_send_seven_quarters_of_the_bytes_in_the_mean_of_the_launches() -> None:
    measured = all_reduces(8, (0.004,), link_gb_per_s=450)
    assert measured.algorithm_gb_per_s == pytest.approx(268.435456)  # 2^30 B in 4 ms
    assert measured.bus_gb_per_s == pytest.approx(469.762048)
    assert of_limit_percent(measured) == pytest.approx(104.39156)
    assert all_reduces(2, (0.001, 0.002, 9), (0.008,)).seconds_per_step == pytest.approx(0.004)


def test_with_nvls_the_limit_is_that_of_a_sum_in_the_switch() -> None:
    """8 x H100 reach 480 GB/s of bus bandwidth with NVLS (github.com/NVIDIA/nccl-tests/issues/212)."""
    seconds = 2 * 7 / 8 * 2**30 / 480e9
    measured = all_reduces(8, (seconds,), link_gb_per_s=450, nvls_channels=16)
    assert measured.limit_gb_per_s == pytest.approx(700)
    assert of_limit_percent(measured) == pytest.approx(68.571, abs=1e-3)
    assert measured.to_record().link_limit_gb_per_s == pytest.approx(700)


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
    measured = all_reduces(8, (0.001,), link_gb_per_s=450, nvls_channels=16, transfer=f"{kind}_256mb")
    assert measured.bus_gb_per_s == pytest.approx(7 / 8 * 2**28 / 1e6)  # 256 MB in 1 ms, in GB/s
    assert measured.limit_gb_per_s == 450
    record = measured.to_record()
    assert (record.workload, record.config) == (kind, f"{kind}_256mb")
    assert record.transfer_s == pytest.approx(0.001)
    assert record.all_reduce_s is None


def test_a_copy_moves_its_bytes_once_over_each_gpus_own_link() -> None:
    measured = all_reduces(8, (0.01,), link_gb_per_s=63, nvls_channels=16, transfer="device_to_host_pageable_256mb")
    assert measured.algorithm_gb_per_s == pytest.approx(26.8435456)
    assert measured.limit_gb_per_s == 63
    assert of_limit_percent(measured) == pytest.approx(42.6088)
    record = measured.to_record()
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
        measured = [transfer for transfer in of_both if transfer.why_not(parse_world(world)) is None]
        for kind in (name for name, kind in KINDS.items() if not kind.copy):
            sizes = sorted(transfer.bytes for transfer in measured if transfer.kind.name == kind)
            most = largest.get(kind, (256 if world == "2gpu" else 16) * 1024**2)
            assert (sizes[0], sizes[-1]) == (8, most)
            assert len(sizes) >= 3  # for the fit of latency and bandwidth
