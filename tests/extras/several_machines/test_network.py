"""The variables that name network devices, against folders laid out as /sys/class."""

from pathlib import Path

import pytest

from fixtures.extras.several_machines.network import BadNetwork, check, check_rdma, network_name, rdma_ports
from fixtures.extras.several_machines.starter import starter
from fixtures.launch.processes import OnThisMachine
from fixtures.machine.topology import Gpus
from fixtures.session.command_line import CommandLine

_ROCE_GIDS = {0: "fe80:0000:0000:0000:ae1f:6bff:fe00:1234", 3: "0000:0000:0000:0000:0000:ffff:0a00:0001"}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with lo, eth0, eth1 and ib0; InfiniBand at mlx5_0 to mlx5_2, mlx5_2 down, and RoCE at mlx5_10."""
    for interface in ("lo", "eth0", "eth1", "ib0"):
        (tmp_path / "net" / interface).mkdir(parents=True)
    (tmp_path / "net" / "bonding_masters").write_text("")
    for device, link, state, rate in (
        ("mlx5_0", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)"),
        ("mlx5_1", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)"),
        ("mlx5_2", "InfiniBand", "1: DOWN", "10 Gb/sec (4X SDR)"),
        ("mlx5_10", "Ethernet", "4: ACTIVE", "100 Gb/sec (4X EDR)"),
    ):
        port = tmp_path / "infiniband" / device / "ports" / "1"
        (port / "gids").mkdir(parents=True)
        for file, text in (("link_layer", link), ("state", state), ("rate", rate)):
            (port / file).write_text(f"{text}\n")
        for index in range(4):
            gid = _ROCE_GIDS.get(index) if link == "Ethernet" else "fe80::1" if index == 0 else None
            (port / "gids" / str(index)).write_text(f"{gid or '0000:0000:0000:0000:0000:0000:0000:0000'}\n")
    return tmp_path


def test_ports_are_read_in_the_order_of_their_numbers(machine: Path) -> None:
    assert [(port.name, port.link, port.active, port.gbit) for port in rdma_ports(machine)] == [
        ("mlx5_0:1", "IB", True, 400),
        ("mlx5_1:1", "IB", True, 400),
        ("mlx5_2:1", "IB", False, 10),
        ("mlx5_10:1", "RoCE", True, 100),
    ]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"NCCL_IB_HCA": "mlx5"},
        {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_10"},
        {"NCCL_IB_HCA": "^mlx5_2,mlx4_0"},
        {"NCCL_IB_HCA": "mlx4_0", "NCCL_IB_DISABLE": "1"},
        {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_HCA": "mlx5_10"},
        {"NCCL_IB_GID_INDEX": "-1"},
        {"NCCL_SOCKET_IFNAME": "eth"},
        {"NCCL_SOCKET_IFNAME": "^lo,docker"},
        {"NCCL_NET": "Socket"},
        {"NCCL_NET": "IB"},
        {"NCCL_NET": "AWS Libfabric"},
        {"NCCL_IB_HCA": ""},
        {"NCCL_IB_HCA": "="},  # no name: every device, as without the variable
        {"NCCL_IB_HCA": "mlx5_0:1:0:0"},  # with rail and plane
        {"NCCL_IB_HCA": "mlx5_0:,mlx5_1"},
        {"NCCL_IB_GID_INDEX": "0x3"},
        {"NCCL_IB_GID_INDEX": "-2"},
        {"NCCL_IB_GID_INDEX": "7", "NCCL_IB_HCA": "=mlx5_0,mlx5_1"},  # InfiniBand needs no GID
        {"NCCL_SOCKET_IFNAME": "^lo"},
        {"NCCL_SOCKET_IFNAME": "=eth0"},
        {"NCCL_SOCKET_IFNAME": "eth0:1"},
        {"NCCL_SOCKET_IFNAME": "^"},  # one character: NCCL ignores it
    ],
)
def test_names_of_devices_that_are_there_pass(variables: dict[str, str], machine: Path) -> None:
    check(variables, "nccl", machines=2, sys_class=machine)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (
            {"NCCL_IB_HCA": "mlx5_0,mlx5_7"},
            "NCCL_IB_HCA=mlx5_0,mlx5_7: no RDMA port is called mlx5_7; "
            "this machine has mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_10:1",
        ),
        ({"NCCL_IB_HCA": "mlx5_0:2"}, "no RDMA port is called mlx5_0:2"),
        ({"NCCL_IB_HCA": "=mlx5"}, "no RDMA port is called mlx5;"),
        ({"NCCL_IB_HCA": "^mlx5"}, "leaves no RDMA port"),
        ({"NCCL_IB_HCA": "mlx5_2"}, "none of these ports is active, so NCCL would use sockets"),
        ({"NCCL_IB_HCA": "^"}, "leaves no RDMA port"),
        ({"NCCL_IB_HCA": "^mlx5_0,mlx5_1,mlx5_10"}, "none of these ports is active"),
        ({"NCCL_IB_HCA": "mlx5_0:x"}, "no RDMA port is called mlx5_0:x;"),
        ({"NCCL_IB_HCA": "mlx5_0 mlx5_1"}, "no RDMA port is called mlx5_0 mlx5_1;"),
        ({"NCCL_IB_HCA": "mlx5_0,mlx5_2"}, "mlx5_2 is not active, so NCCL would leave it out; see ibstat"),
        ({"NCCL_IB_GID_INDEX": "2"}, "port mlx5_10:1 has no GID 2, but 0, 3"),
        ({"NCCL_IB_GID_INDEX": "99"}, "port mlx5_10:1 has no GID 99, but 0, 3"),
        ({"NCCL_IB_GID_INDEX": "two"}, "NCCL_IB_GID_INDEX=two is not an index"),
        (
            {"NCCL_SOCKET_IFNAME": "eth0,ens5"},
            "NCCL_SOCKET_IFNAME=eth0,ens5: no interface is called ens5; this machine has eth0, eth1, ib0, lo",
        ),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, "no interface is called eth;"),
        ({"NCCL_SOCKET_IFNAME": "ETH0"}, "no interface is called ETH0;"),
        ({"NCCL_SOCKET_IFNAME": "^lo,eth,ib"}, "leaves no interface"),
        ({"NCCL_NET": "IB", "NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1 excludes RDMA"),
    ],
)
def test_a_name_that_is_not_there_is_an_error(variables: dict[str, str], says: str, machine: Path) -> None:
    with pytest.raises(BadNetwork) as raised:
        check(variables, "nccl", machines=2, sys_class=machine)
    assert says in str(raised.value)


def test_ib_without_a_device_is_an_error_instead_of_sockets(tmp_path: Path) -> None:
    with pytest.raises(BadNetwork, match="no RDMA device is here: /sys/class/infiniband has none, so NCCL would use"):
        check({"NCCL_NET": "IB"}, "nccl", sys_class=tmp_path)


def test_an_interface_for_gloo_has_its_whole_name_and_on_one_machine_none_is_checked(machine: Path) -> None:
    check({"GLOO_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx4_0"}, "gloo", machines=2, sys_class=machine)
    with pytest.raises(BadNetwork, match=r"^GLOO_SOCKET_IFNAME=eth: no interface is called eth; this machine has eth0"):
        check({"GLOO_SOCKET_IFNAME": "eth"}, "gloo", machines=2, sys_class=machine)
    check({"NCCL_SOCKET_IFNAME": "ens5", "GLOO_SOCKET_IFNAME": "ens5"}, "nccl", sys_class=machine)


def test_variables_that_exclude_rdma_are_named(machine: Path) -> None:
    check_rdma({}, sys_class=machine)
    for name, value, says in (
        ("NCCL_IB_DISABLE", "1", "NCCL_IB_DISABLE=1 excludes RDMA"),
        ("NCCL_NET", "Socket", "NCCL_NET=Socket excludes RDMA"),
        ("NCCL_IB_HCA", "mlx4", "no RDMA port is called mlx4"),
    ):
        with pytest.raises(BadNetwork, match=says):
            check_rdma({name: value}, sys_class=machine)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, "ib-2x400gbit"),
        ({"NCCL_IB_HCA": "=mlx5_10"}, "roce-1x100gbit"),
        ({"NCCL_NET": "Socket"}, "socket"),
        ({"NCCL_IB_DISABLE": "1"}, "socket"),
    ],
)
def test_the_network_has_the_name_of_its_links_and_rates(variables: dict[str, str], name: str, machine: Path) -> None:
    assert network_name(variables, "nccl", sys_class=machine) == name
    assert network_name({}, "gloo", sys_class=machine) == "socket"


def test_the_link_of_efa_is_no_roce_and_needs_a_plugin(tmp_path: Path) -> None:
    device = tmp_path / "infiniband" / "rdmap0s6"
    (device / "ports" / "1").mkdir(parents=True)
    (device / "device").mkdir()
    (tmp_path / "drivers" / "efa").mkdir(parents=True)
    (device / "device" / "driver").symlink_to(tmp_path / "drivers" / "efa")
    for file, text in (("link_layer", "Unknown"), ("state", "4: ACTIVE"), ("rate", "100 Gb/sec (4X EDR)")):
        (device / "ports" / "1" / file).write_text(f"{text}\n")
    assert network_name({}, "nccl", sys_class=tmp_path) == "efa-1x100gbit"
    check({"NCCL_NET": "AWS Libfabric", "NCCL_IB_GID_INDEX": "3"}, "nccl", machines=2, sys_class=tmp_path)
    with pytest.raises(BadNetwork, match=r"rdmap0s6:1 is EFA, which NCCL uses with a plugin only$"):
        check_rdma({}, sys_class=tmp_path)


def test_a_run_on_one_machine_is_refused_too(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NET", "IB")
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    gpus = Gpus(models=("NVIDIA H200",), uuids=("GPU-0",))
    with pytest.raises(pytest.UsageError, match=r"^NCCL_IB_DISABLE=1 excludes RDMA: unset it$"):
        starter(CommandLine(config=pytestconfig, gpus=gpus, starter=OnThisMachine()))
