"""NCCL's choices, from posted logs of its versions."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.nccl_log import (
    Fingerprint,
    VariableNotRead,
    check_variables,
    choices,
    fingerprint,
    ranges,
)
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
    fingerprinted = fingerprint(log)
    assert {name: getattr(fingerprinted, name) for name in found} == found


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
    found = choices(logs.V2_29_TUNING + logs.V2_28_OR_NEAR_SYMMETRIC)
    assert found.channels == {"Broadcast": 4, "AllReduce": 16}


@given(st.sets(st.integers(0, 63)))
def test_ranges_name_each_channel_once(channels: set[int]) -> None:
    parts = [part.split("-") for part in ranges(channels).split(",") if part]
    assert [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)] == sorted(channels)
