"""Channels of several communicators, processes and hosts in one log of NCCL."""

from collections import Counter

import pytest

from fixtures.machine.nccl_log import fingerprint, transports

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
# The same group of numbers on each of two hosts.
ON_EACH_HOST = """\
a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 {0} - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
b:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 {1} - Init START
b:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
# Two groups of 2 ranks of one host, each on the same GPUs.
ON_THE_SAME_GPUS = """\
a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init START
a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
a:2:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init START
a:2:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
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
# A process destroys a communicator and forms another one at the same address.
AGAIN = IN_TURN.replace("comm 0x2", "comm 0x1")


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (IN_TURN, {"P2P/CUMEM": 2, "NET/Socket": 2}),
        (AGAIN, {"P2P/CUMEM": 2, "NET/Socket": 2}),
        (CONNECTED_LATER, {"P2P/CUMEM": 1, "NET/IB": 1}),
        (BOTH_ENDS, {"NET/IB": 1}),
        (AT_THE_SAME_TIME.format("commId 0xa", "commId 0xb"), {"NET/IB": 2}),
        (AT_THE_SAME_TIME.format("", ""), {"NET/IB": 2}),
        (ON_EACH_HOST.format("commId 0xa", "commId 0xb"), {"P2P/CUMEM": 2}),
        (ON_EACH_HOST.format("", ""), {"P2P/CUMEM": 2}),
        (ON_THE_SAME_GPUS, {"SHM/direct/direct": 2}),
        (SPLIT, {"P2P/CUMEM": 2, "SHM/direct/direct": 1}),
    ],
    ids=[
        *("in-turn", "again", "connected-later", "both-ends", "at-the-same-time", "at-the-same-time-without-ids"),
        *("on-each-host", "on-each-host-without-ids", "on-the-same-gpus", "split"),
    ],
)
def test_a_channel_counts_once_in_its_communicator(log: str, found: dict[str, int]) -> None:
    assert transports(log) == Counter(found)


def test_a_pair_has_its_channels_in_all_communicators() -> None:
    assert fingerprint(IN_TURN).pairs == {"0 -> 1": {"NET/Socket": "0-1", "P2P/CUMEM": "0-1"}}
