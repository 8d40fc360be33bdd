"""NCCL's choices and transports, from posted logs of its versions."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.nccl_log import (
    Fingerprint,
    VariableNotRead,
    WrongTransport,
    check_interconnect,
    check_requested_network,
    check_variables,
    choices,
    fingerprint,
    ranges,
    transports,
)
from fixtures.matrix.worlds import INTERCONNECTS
from tests import nccl_logs as logs


def pairs(**expected: dict[str, str]) -> dict[str, dict[str, dict[str, str]]]:
    """Of ``_4_0``, from rank 4 to rank 0, the transports and their channels."""
    return {"pairs": {" -> ".join(pair[1:].split("_")): transports for pair, transports in expected.items()}}


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("", {"pairs": {}}),
        (logs.V2_27_VERSION, {"nccl": "2.27.5"}),
        (logs.V2_30_START, {"nccl": "2.30.3", "network": "IB", "rdma_link": None, "tuner": None}),
        (logs.V2_22_CUMEM, {"nccl": None, "network": None, "gpudirect": None, "variables": {}}),
        (logs.V2_22_CUMEM, {"channels": None, "nvls_channels": None, "p2p_channels": None}),
        (logs.V2_22_CUMEM, pairs(_0_1={"P2P/CUMEM": "2-4,10"})),
        (logs.V2_19_ROCE, {"rdma_link": "RoCE"}),
        (logs.V2_19_MERGED_PORTS, {"rdma_link": "RoCE"}),
        (logs.V2_19_ROCE.replace("network IB", "network Socket"), {"rdma_link": None}),
        (logs.TUNER_PLUGIN, {"tuner": "nccl_ofi_tuner"}),
        (logs.NO_TUNER_PLUGIN, {"tuner": None}),
        (logs.V2_21_NVLS, {"channels": 24, "nvls_channels": 16, "p2p_channels": 32, "connected": ()}),
        (logs.V2_27_CHANNELS, {"channels": 24, "nvls_channels": 0, "p2p_channels": 32}),
        # The last communicator counts.
        (logs.V2_21_NVLS + logs.V2_27_CHANNELS, {"channels": 24, "nvls_channels": 0, "p2p_channels": 32}),
        # Its collnet channels repeat the others.
        (logs.V2_20_OR_NEAR_IB, {"channels": 8, "nvls_channels": 0, "p2p_channels": 8, "connected": ("Tree",)}),
        (
            logs.V2_20_OR_NEAR_IB,
            pairs(
                _2_0={"P2P/CUMEM": "2"},
                _3_7={"NET/IBext_v8/GDRDMA": "3"},
                _4_0={"NET/IBext_v8/GDRDMA": "0"},
                _7_3={"NET/IBext_v8/GDRDMA": "3,7"},
            ),
        ),
        (logs.V2_20_OR_NEAR_IB, {"gpudirect": True}),
        (logs.IB_WITHOUT_GPUDIRECT, {"gpudirect": False}),
        (logs.V2_20_OR_NEAR_IB + logs.IB_WITHOUT_GPUDIRECT, {"gpudirect": False}),
        (logs.V2_26_OR_NEAR_RINGS, pairs(_2_3={"P2P/direct": "21-22"}) | {"connected": ("Ring",)}),
        (logs.V2_27_SHARED, pairs(_2_3={"P2P/CUMEM": "0"}, _3_0={"NET/IB/GDRDMA/Shared": "5"})),
        # A plugin with a space in its name.
        (logs.RCCL_OFI, pairs(_0_2={"P2P/IPC": "3"}, _4092_0={"NET/AWS Libfabric/GDRDMA": "0"}) | {"gpudirect": True}),
        (logs.OFI_WITHOUT_GPUDIRECT, pairs(_1_0={"NET/AWS Libfabric": "0-1"}) | {"gpudirect": False}),
        (
            logs.OFI,
            pairs(_0_1={"NET/Libfabric/GDRDMA": "0"}, _3_0={"NET/Libfabric/GDRDMA": "0-1"}) | {"gpudirect": True},
        ),
        (logs.V2_22_OR_NEAR_NVLS_AND_TUNING, {"connected": ("NVLS",)}),
        (logs.V2_25_VARIABLES, {"variables": {"NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16"}}),
        (logs.TEXT_VARIABLES, {"variables": {"NCCL_ALGO": "ring,tree", "NCCL_IB_HCA": "rxe0"}}),
    ],
    ids=count(),
)
def test_a_log_says_what_nccl_chose(log: str, found: dict[str, object]) -> None:
    assert {name: getattr(fingerprint(log), name) for name in found} == found


# As ``fixtures.ranks.process_group`` writes it.
HIGH_PRIORITY = "ProcessGroupNCCL: TORCH_NCCL_HIGH_PRIORITY set to 1\n"


@pytest.mark.parametrize(
    ("log", "requested"),
    [
        (logs.V2_25_VARIABLES, {"NCCL_MAX_CTAS": "16", "NCCL_MIN_CTAS": "16"}),
        (logs.TEXT_VARIABLES, {"NCCL_ALGO": "Ring,Tree"}),
        (logs.V2_29_OR_LATER_VARIABLES, {"NCCL_MAX_CTAS": "8", "NCCL_CTA_POLICY": "EFFICIENCY"}),
        (logs.CTA_POLICY_AS_OPTION, {"NCCL_CTA_POLICY": "2"}),
        (HIGH_PRIORITY + logs.V2_30_START, {"TORCH_NCCL_HIGH_PRIORITY": "1"}),
        (logs.V2_30_START, {}),
        (logs.V2_30_START, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),  # which NCCL does not read
    ],
)
def test_variables_that_the_log_names_took_effect(log: str, requested: dict[str, str]) -> None:
    check_variables(requested, fingerprint(log))


@pytest.mark.parametrize(
    ("log", "requested", "says"),
    [
        (logs.V2_25_VARIABLES, ("NCCL_MAX_CTAS", "4"), "NCCL's log has NCCL_MAX_CTAS=16"),
        (logs.V2_25_VARIABLES, ("NCCL_PROTO", "Simple"), "NCCL's log does not name NCCL_PROTO"),
        (logs.V2_30_START, ("TORCH_NCCL_HIGH_PRIORITY", "1"), "NCCL's log does not name TORCH_NCCL_HIGH_PRIORITY"),
        ("", ("NCCL_MAX_CTAS", "4"), "NCCL's log does not name NCCL_MAX_CTAS"),
    ],
)
def test_a_variable_without_effect_is_named_with_what_the_log_has(
    log: str, requested: tuple[str, str], says: str
) -> None:
    with pytest.raises(VariableNotRead) as raised:
        check_variables(dict([requested]), fingerprint(log))
    assert str(raised.value) == f"{'='.join(requested)} did not take effect: {says}"


def test_the_logs_of_all_ranks_make_one_fingerprint() -> None:
    found = fingerprint("\n".join([logs.V2_30_START, logs.V2_20_OR_NEAR_IB, logs.V2_21_NVLS]))
    assert (found.nccl, found.network, found.channels) == ("2.30.3", "IB", 24)
    assert found.transports == {"P2P/CUMEM": 1, "NET/IBext_v8/GDRDMA": 4}
    assert fingerprint("\n") == Fingerprint()


@pytest.mark.parametrize(
    ("log", "shares"),
    [
        (
            logs.V2_29_TUNING,
            {"AllReduce": {"Tree/LL": 97, "Tree/Simple": 3}, "Broadcast": {"Ring/Simple": 100}},
        ),
        (logs.V2_28_OR_NEAR_SYMMETRIC, {"AllReduce": {"AllReduce_RSxLDMC_AGxSTMC": 100}}),
        (logs.V2_21_NVLS, {}),
    ],
    ids=count(),
)
def test_the_algorithm_that_carries_most_bytes_of_a_collective_is_first(
    log: str, shares: dict[str, dict[str, float]]
) -> None:
    found = choices(log).algorithms_percent
    assert found == {name: pytest.approx(by, abs=0.1) for name, by in shares.items()}
    assert [list(by) for by in found.values()] == [list(by) for by in shares.values()]


@pytest.mark.parametrize(
    ("said", "name"),
    [("NVLS_TREE", "NVLSTree"), ("COLLNET_DIRECT", "CollNetDirect"), ("PAT", "PAT"), ("NEW", "NEW")],
)
def test_an_algorithm_has_its_name_in_nccls_documents(said: str, name: str) -> None:
    log = logs.V2_29_TUNING.splitlines()[2].replace("TREE", said)
    assert choices(log).algorithms_percent == {"AllReduce": {f"{name}/Simple": 100}}


def test_the_channels_of_a_collective_are_the_most_that_a_call_used() -> None:
    assert choices(logs.V2_29_TUNING + logs.V2_28_OR_NEAR_SYMMETRIC).channels == {"Broadcast": 4, "AllReduce": 16}


@given(st.sets(st.integers(0, 63)))
def test_ranges_name_each_channel_once(channels: set[int]) -> None:
    parts = [part.split("-") for part in ranges(channels).split(",") if part]
    assert [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)] == sorted(channels)


# Transports from NCCL's log


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


# Channels of several communicators, processes and hosts in one log of NCCL


# A host's group of 4 ranks over NVLink, then a group of 2 ranks across hosts.
IN_TURN = """\
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 4 cudaDev 0 - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x2 rank 0 nranks 2 cudaDev 0 - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
a:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0
"""
# NCCL connects on first use: both communicators are formed before the channels of either, which another thread logs.
CONNECTED_LATER = """\
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 2 nranks 4 cudaDev 0 commId 0xa - Init START
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 2 nranks 4 cudaDev 0 commId 0xa - Init COMPLETE
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x2 rank 1 nranks 2 cudaDev 0 commId 0xb - Init START
a:1:9 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/CUMEM
a:1:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0
"""
# Both ends log a channel through the network, on two hosts; each host's first process has the same number.
BOTH_ENDS = """\
a:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 commId 0xb - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
b:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x7 rank 1 nranks 2 cudaDev 0 commId 0xb - Init START
b:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0
"""
# Two groups of 2 ranks across hosts at the same time, in four processes.
AT_THE_SAME_TIME = """\
[1,0]<stdout>:a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 {0} - Init START
[1,1]<stdout>:a:2:2 [1] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 1 busId 2 {1} - Init START
b:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1 {0} - Init START
b:2:2 [1] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 2 cudaDev 1 busId 2 {1} - Init START
[1,0]<stdout>:a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
[1,1]<stdout>:a:2:2 [1] NCCL INFO Channel 00/0 : 0[1] -> 1[1] [send] via NET/IB/0
b:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0
b:2:2 [1] NCCL INFO Channel 00/0 : 0[1] -> 1[1] [receive] via NET/IB/0
"""
# The two halves of a group of 4: equal numbers, another color. The id of a split is none of its own.
SPLIT = """\
a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 commId 0xa - Init START
a:1:1 [0] NCCL INFO ncclCommSplit comm 0x2 rank 0 nranks 2 cudaDev 0 parent 0x1 color 5 key 0 commId 0x0 - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
a:2:2 [1] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 4 cudaDev 1 commId 0xa - Init START
a:2:2 [1] NCCL INFO ncclCommSplit comm 0x2 rank 1 nranks 2 cudaDev 1 parent 0x1 color 5 key 1 commId 0x0 - Init START
a:2:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM
a:3:3 [2] NCCL INFO ncclCommInitRank comm 0x1 rank 2 nranks 4 cudaDev 2 commId 0xa - Init START
a:3:3 [2] NCCL INFO ncclCommSplit comm 0x2 rank 0 nranks 2 cudaDev 2 parent 0x1 color 9 key 2 commId 0x0 - Init START
a:3:3 [2] NCCL INFO Channel 00/0 : 0[2] -> 1[3] via SHM/direct/direct
"""


def test_a_pair_has_its_channels_in_all_communicators() -> None:
    assert fingerprint(IN_TURN).pairs == {"0 -> 1": {"NET/Socket": "0-1", "P2P/CUMEM": "0-1"}}


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
        # Communicators on other GPUs have channels of their own.
        (IN_TURN, {"P2P/CUMEM": 2, "NET/Socket": 2}),
        (CONNECTED_LATER, {"P2P/CUMEM": 1, "NET/IB": 1}),
        (BOTH_ENDS, {"NET/IB": 1}),
        (AT_THE_SAME_TIME.format("commId 0xa", "commId 0xb"), {"NET/IB": 2}),
        (SPLIT, {"P2P/CUMEM": 2, "SHM/direct/direct": 1}),
    ],
    ids=[
        "2.14",
        "2.18",
        "2.21-socket",
        "of-all-ranks",
        "2.28-ib",
        "2.28-cumem",
        "nothing",
        "no-connection",
        "in-turn",
        "connected-later",
        "both-ends",
        "at-the-same-time",
        "split",
    ],
)
def test_each_connection_counts_once(log: str, found: dict[str, int]) -> None:
    assert transports(log) == Counter(found)
