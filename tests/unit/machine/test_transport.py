"""Transports from NCCL's log."""

from collections import Counter

import pytest

from fixtures.machine.nccl_log import WrongTransport, check_interconnect, check_requested_network, transports
from fixtures.matrix.worlds import INTERCONNECTS
from tests import nccl_logs as logs

V2_14 = """\
node:88:133 [0] NCCL INFO Channel 00/0 : 0[17000] -> 1[b2000] via SHM/direct/direct
node:89:134 [1] NCCL INFO Channel 00/0 : 1[b2000] -> 0[17000] via SHM/direct/direct
node:88:133 [0] NCCL INFO Channel 01/0 : 0[17000] -> 1[b2000] via SHM/direct/CE
"""
V2_18 = """\
node:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer
node:1:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node:1:9 [0] NCCL INFO Channel 02/0 : 0[0] -> 3[3] via P2P/indirect/1[1]
node:1:9 [0] NCCL INFO Channel 03/0 : 0[0] -> 3[3] via P2P/indirect/2[2]/read
"""
V2_21_SOCKET = """\
node:7:30 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0
node:8:31 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/Socket/0
node:7:30 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0
node:8:31 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/Socket/0
node:7:30 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] [send] via NET/Socket/1
"""
V2_28_IB = """\
node:5:40 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
node:5:40 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/3/GDRDMA(PCI)
node:5:41 [1] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0(8)/GDRDMA/Shared
node:5:41 [1] NCCL INFO Channel 01/0 : 1[1] -> 8[0] [send] via NET/IB/11
"""
V2_28_CUMEM = """\
node:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node:1:1 [0] NCCL INFO Channel 00/24 : 0 1
node:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[6] via P2P/CUMEM
node:1:1 [0] NCCL INFO Channel 23/0 : 0[0] -> 1[6] via P2P/CUMEM
node:2:2 [1] NCCL INFO Channel 00/0 : 1[6] -> 0[0] via P2P/CUMEM
node:1:1 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)
"""
# Logged for GPUs that have it, also where no channel uses it.
NVLS_UNUSED = """\
node:1:1 [0] NCCL INFO NVLS multicast support is available on dev 0
node:1:1 [0] NCCL INFO Connected NVLS tree
node:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer
"""


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (V2_14, {"SHM/direct/direct": 2, "SHM/direct/CE": 1}),
        (V2_18, {"P2P/direct": 1, "P2P/CUMEM/read": 1, "P2P/indirect": 1, "P2P/indirect/read": 1}),
        (V2_21_SOCKET, {"NET/Socket": 3}),
        ("\n".join([*V2_21_SOCKET.splitlines()[::2], *V2_21_SOCKET.splitlines()[1::2]]), {"NET/Socket": 3}),
        (V2_28_IB, {"NET/IB/GDRDMA": 2, "NET/IB/GDRDMA/Shared": 1, "NET/IB": 1}),
        (V2_28_CUMEM, {"P2P/CUMEM": 3}),
        ("", {}),
        ("node:1:1 [0] NCCL INFO Channel 00/24 : 0 1 2 3\n", {}),
    ],
    ids=["2.14", "2.18", "2.21-socket", "of-all-ranks", "2.28-ib", "2.28-cumem", "nothing", "no-connection"],
)
def test_each_connection_counts_once(log: str, found: dict[str, int]) -> None:
    assert transports(log) == Counter(found)


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("native", V2_28_CUMEM),
        ("native", V2_14 + logs.V2_21_NVLS),
        ("native", ""),
        ("shm", V2_14),
        ("shm", V2_14 + NVLS_UNUSED),
        ("net", V2_21_SOCKET + logs.V2_27_CHANNELS),
        ("net", V2_28_IB),
    ],
)
def test_the_interconnect_that_was_asked_for_passes(name: str, log: str) -> None:
    check_interconnect(INTERCONNECTS[name], log, ranks=2)


@pytest.mark.parametrize(
    ("name", "log", "says"),
    [
        ("shm", V2_28_CUMEM, "did not take effect: NCCL uses P2P/CUMEM on 3 of 3 channels"),
        ("net", V2_14, "NCCL uses SHM/direct/direct on 2 of 3 channels, SHM/direct/CE on 1 of 3 channels"),
        ("shm", V2_14 + V2_28_CUMEM.replace("Channel 00", "Channel 07"), "P2P/CUMEM on 3 of 6 channels"),
        ("shm", V2_14 + logs.V2_21_NVLS, "did not take effect: NCCL uses NVLS on 16 channels"),
        ("net", V2_21_SOCKET + logs.V2_21_NVLS + logs.V2_27_CHANNELS, "NCCL uses NVLS on 16 channels"),
        ("shm", V2_28_CUMEM + logs.V2_21_NVLS, "P2P/CUMEM on 3 of 3 channels, NVLS on 16 channels"),
        ("shm", "", "NCCL's log names no channel, so it cannot be verified"),
    ],
)
def test_another_transport_is_named_with_its_channels(name: str, log: str, says: str) -> None:
    with pytest.raises(WrongTransport) as raised:
        check_interconnect(INTERCONNECTS[name], log, ranks=2)
    assert str(raised.value).startswith(f"--interconnect {name}")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("ib", logs.V2_20_OR_NEAR_IB),  # with NVLink inside each machine
        ("ib", logs.IB_WITHOUT_GPUDIRECT),
        ("ib_gpudirect", logs.IB_WITH_GPUDIRECT),
        ("native", V2_21_SOCKET),
        ("shm", V2_14 + V2_21_SOCKET),  # host memory inside each machine
    ],
)
def test_rdma_between_machines_passes(name: str, log: str) -> None:
    check_interconnect(INTERCONNECTS[name], log, ranks=8, machines=2)


@pytest.mark.parametrize(
    ("name", "log", "says"),
    [
        ("ib", V2_21_SOCKET, "needs NET/IB, and NCCL uses NET/Socket on 3 of 3 channels between machines"),
        ("ib", V2_28_CUMEM, "NCCL's log names no channel between machines"),
        ("ib_gpudirect", logs.IB_WITHOUT_GPUDIRECT, "needs NET/IB with GPUDirect RDMA, and NCCL uses NET/IBext_v8 on"),
    ],
)
def test_another_network_between_machines_is_named(name: str, log: str, says: str) -> None:
    with pytest.raises(WrongTransport, match=says):
        check_interconnect(INTERCONNECTS[name], log, ranks=8, machines=2)


def test_a_world_in_one_machine_has_no_network_to_verify_and_one_rank_no_connection() -> None:
    check_interconnect(INTERCONNECTS["ib"], V2_28_CUMEM, ranks=8, machines=1)
    check_interconnect(INTERCONNECTS["shm"], "", ranks=1)


def test_nccl_net_is_compared_with_the_network_in_the_log() -> None:
    check_requested_network("ib", "IB")
    check_requested_network(None, "Socket")
    with pytest.raises(WrongTransport, match=r"^NCCL_NET=IB did not take effect: NCCL uses the network Socket$"):
        check_requested_network("IB", "Socket")
