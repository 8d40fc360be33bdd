"""The limit of copies between host and device."""

import pytest

from fixtures.machine.gpu_links import Device, Machine, host_link_gb_per_s, pcie_gb_per_s


@pytest.mark.parametrize(
    ("generation", "width", "limit"),
    [
        (1, 16, 4),
        (3, 16, 15.754),
        (4, 16, 31.508),
        (5, 16, 63.015),
        (5, 8, 31.508),
        (6, 16, 121),
        (7, 16, None),
        (None, 16, None),
        (5, None, None),
        (5, 0, None),
    ],
)
def test_the_limit_is_the_rate_of_a_lane_times_the_lanes(
    generation: int | None, width: int | None, limit: float | None
) -> None:
    assert pcie_gb_per_s(generation, width) == (None if limit is None else pytest.approx(limit, rel=1e-4))


def machine(*widths: int | None) -> Machine:
    devices = (
        Device(name="GPU", pcie_generation=1, pcie_max_generation=5, pcie_width=width, pcie_max_width=16)
        for width in widths
    )
    return Machine(devices=tuple(devices), links={}, p2p={})


def test_the_narrowest_link_counts_and_all_must_be_known() -> None:
    assert host_link_gb_per_s(machine(16, 8)) == pytest.approx(31.508, rel=1e-4)
    assert host_link_gb_per_s(machine(16, None)) is None
    assert host_link_gb_per_s(machine()) is None
