"""The machines of a run, their network, and the place of a rank."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from fixtures.extras.several_machines.machines import (
    BadMachines,
    Listener,
    LostMachine,
    Machine,
    Place,
    connect,
    differences,
    interface_variables,
    place_of,
)
from fixtures.extras.several_machines.network import BadNetwork, check, check_rdma, network_name, rdma_ports
from fixtures.extras.several_machines.starter import starter
from fixtures.launch.channel import Channel, Frame
from fixtures.launch.processes import OnThisMachine
from fixtures.machine.topology import Gpus
from fixtures.session.command_line import CommandLine
from tests.builders import known

OURS = {
    "host": "a",
    "namespace": "1",
    "torch": "2.15.0",
    "NCCL": "2.28.9",
    "Python": "3.12.3",
    "ddp-perf": "0123",
    "my_project.training": "4567",
    "devices": "8 x NVIDIA H200",
}


@pytest.fixture
def far() -> Iterator[tuple[Machine, Channel]]:
    """A machine, and the end of its follower."""
    ours, theirs = socket.socketpair()
    machine, channel = Machine(1, {"host": "b", "namespace": "2"}, ours), Channel(theirs)
    yield machine, channel
    machine.end(0)
    channel.close()


def answering(channel: Channel, answer: Callable[[Frame], Frame | None]) -> None:
    """A follower that answers one request, or closes its connection."""

    def serve() -> None:
        request = known(channel.receive())
        if (frame := answer(request)) is None:
            channel.close()
        else:
            channel.send({"number": request["number"], **frame})

    Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("torch", "2.14.0", "b has torch 2.14.0, a has 2.15.0: install one version on all"),
        ("NCCL", "2.27.5", "b has NCCL 2.27.5, a has 2.28.9: install one version on all"),
        ("devices", "4 x NVIDIA H200", "b has devices 4 x NVIDIA H200, a has 8 x NVIDIA H200: a run measures machines"),
        ("ddp-perf", "89ab", "b has different code of ddp-perf than a: check out one revision on all"),
        ("my_project.training", "missing", "b has different code of my_project.training than a: copy it"),
    ],
)
def test_what_differs_between_machines_is_named(name: str, value: str, line: str) -> None:
    (found,) = differences(OURS, {**OURS, "host": "b", "namespace": "2", name: value}, "a", "b")
    assert found.startswith(line)
    assert differences(OURS, {**OURS, "host": "b", "namespace": "2"}, "a", "b") == []


def test_a_machine_answers_requests_and_the_answer_to_an_interrupted_one_is_left_out(
    far: tuple[Machine, Channel],
) -> None:
    machine, channel = far
    channel.send({"number": 0, "value": "late"})
    answering(channel, lambda request: {"value": request["arguments"]["rank"] + 1})
    assert machine.ask("exit_fault", rank=2) == 3
    assert machine.lost is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, r"^b \(machine 1\) was lost: its connection was closed"),
        ({"gone": "ended: Interrupted SIGTERM"}, r"^b \(machine 1\) ended: Interrupted SIG"),
        ({"error": "no space left"}, r"^on b \(machine 1\): no space left$"),
    ],
)
def test_a_machine_that_leaves_is_lost_and_what_it_cannot_do_has_its_name(
    answer: Frame | None, says: str, far: tuple[Machine, Channel]
) -> None:
    machine, channel = far
    answering(channel, lambda request: answer)
    leaves = answer is None or "gone" in answer
    with pytest.raises(LostMachine if leaves else OSError, match=says):
        machine.ask("silence_s")
    assert machine.is_lost() == leaves


def test_a_machine_that_does_not_answer_in_time_is_lost(far: tuple[Machine, Channel]) -> None:
    machine, _ = far
    with pytest.raises(LostMachine, match=r"did not answer for 0.01 s"):
        machine.ask("silence_s", timeout_s=0.01)


def test_a_connection_without_the_token_is_dropped() -> None:
    listener = Listener("127.0.0.1")
    ends = [connect("127.0.0.1", listener.port, {"token": token}, 5) for token in ("guess", listener.token)]
    assert listener.accept(5) is None
    for end in (*ends, known(listener.accept(5))[0]):
        end.close()
    listener.close()


@pytest.mark.parametrize(("named", "taken"), [("", "lo"), ("eth7", "eth7")])
def test_gloo_takes_the_interface_of_the_address_unless_the_variable_names_one(
    named: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", named)
    assert interface_variables("127.0.0.1") == {"GLOO_SOCKET_IFNAME": taken}


# The variables that name network devices, against folders laid out as /sys/class


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


# The position of a pytest among machines, from torchrun's variables


SECOND = {
    "TORCHELASTIC_RUN_ID": "none",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "node-a",
    "MASTER_PORT": "29500",
}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (SECOND, Place(index=1, count=2, store_host="node-a", store_port=29500)),
        *((none, None) for none in ({}, {"RANK": "1", "WORLD_SIZE": "2"}, {**SECOND, "GROUP_WORLD_SIZE": "1"})),
    ],
)
def test_torchrun_on_several_machines_gives_the_place(environ: dict[str, str], place: Place | None) -> None:
    assert place_of(environ) == place


def test_one_pytest_a_machine_starts_the_ranks() -> None:
    with pytest.raises(BadMachines, match=r"torchrun started 8 pytest on this machine.*--nproc-per-node 1"):
        place_of({**SECOND, "LOCAL_WORLD_SIZE": "8"})
