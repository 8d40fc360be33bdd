"""NCCL's choices, from posted logs of each of its versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.machine.nccl_log import (
    UNNAMED,
    Fingerprint,
    VariableNotRead,
    check_variables,
    choices,
    fingerprint,
    ranges,
)
from tests import nccl_logs as logs


@pytest.mark.parametrize(
    ("log", "version"),
    [
        pytest.param(logs.V2_27_VERSION, "2.27.5", id="2.27"),
        pytest.param(logs.V2_30_START, "2.30.3", id="2.30"),
        pytest.param(logs.V2_22_CUMEM, None, id="not-said"),
    ],
)
def test_the_version_is_read(log: str, version: str | None) -> None:
    assert fingerprint(log).nccl == version


@pytest.mark.parametrize(("log", "network"), [(logs.V2_30_START, "IB"), (logs.V2_22_CUMEM, None)])
def test_the_network_is_read(log: str, network: str | None) -> None:
    assert fingerprint(log).network == network


@pytest.mark.parametrize(
    ("log", "link"),
    [
        (logs.V2_19_ROCE, "RoCE"),
        (logs.V2_19_MERGED_PORTS, "RoCE"),
        (logs.V2_19_ROCE.replace("network IB", "network Socket"), None),
        (logs.V2_30_START, None),
    ],
)
def test_the_link_of_rdma_is_read(log: str, link: str | None) -> None:
    assert fingerprint(log).rdma_link == link


@pytest.mark.parametrize(
    ("log", "tuner"),
    [
        (logs.TUNER_PLUGIN, "nccl_ofi_tuner"),
        (logs.V2_19_TUNER, "Example"),
        (logs.NO_TUNER_PLUGIN, None),
        (logs.V2_30_START, None),
    ],
)
def test_a_tuner_plugin_is_read(log: str, tuner: str | None) -> None:
    assert fingerprint(log).tuner == tuner


@pytest.mark.parametrize(
    ("log", "channels", "nvls", "p2p"),
    [
        pytest.param(logs.V2_21_NVLS, 24, 16, 32, id="2.21-nvls"),
        pytest.param(logs.V2_20_OR_NEAR_IB, 8, 0, 8, id="2.20-collnet-repeats-coll"),
        pytest.param(logs.V2_27_CHANNELS, 24, 0, 32, id="2.27"),
        pytest.param(logs.V2_22_CUMEM, None, None, None, id="not-said"),
        pytest.param(logs.V2_21_NVLS + logs.V2_27_CHANNELS, 24, 0, 32, id="the-last-communicator"),
    ],
)
def test_channels_are_counted_by_kind(log: str, channels: int | None, nvls: int | None, p2p: int | None) -> None:
    found = fingerprint(log)
    assert (found.channels, found.nvls_channels, found.p2p_channels) == (channels, nvls, p2p)


@pytest.mark.parametrize(
    ("log", "pairs"),
    [
        pytest.param(
            logs.V2_20_OR_NEAR_IB,
            {
                "2 -> 0": {"P2P/CUMEM": "2"},
                "3 -> 7": {"NET/IBext_v8/GDRDMA": "3"},
                "4 -> 0": {"NET/IBext_v8/GDRDMA": "0"},
                "7 -> 3": {"NET/IBext_v8/GDRDMA": "3,7"},
            },
            id="2.20-infiniband",
        ),
        pytest.param(logs.V2_22_CUMEM, {"0 -> 1": {"P2P/CUMEM": "2-4,10"}}, id="2.22-cumem"),
        pytest.param(logs.V2_26_OR_NEAR_RINGS, {"2 -> 3": {"P2P/direct": "21-22"}}, id="2.26-one-process"),
        pytest.param(
            logs.V2_27_SHARED,
            {"2 -> 3": {"P2P/CUMEM": "0"}, "3 -> 0": {"NET/IB/GDRDMA/Shared": "5"}},
            id="2.27-shared-buffers",
        ),
        pytest.param(
            logs.RCCL_OFI,
            {"0 -> 2": {"P2P/IPC": "3"}, "4092 -> 0": {"NET/AWS Libfabric/GDRDMA": "0"}},
            id="rccl-plugin-with-a-space-in-its-name",
        ),
        pytest.param(logs.OFI_WITHOUT_GPUDIRECT, {"1 -> 0": {"NET/AWS Libfabric": "0-1"}}, id="efa"),
        pytest.param(
            logs.OFI,
            {"0 -> 1": {"NET/Libfabric/GDRDMA": "0"}, "3 -> 0": {"NET/Libfabric/GDRDMA": "0-1"}},
            id="efa-later",
        ),
        pytest.param("", {}, id="nothing"),
    ],
)
def test_each_pair_has_its_transports_with_their_channels(log: str, pairs: dict[str, dict[str, str]]) -> None:
    assert fingerprint(log).pairs == pairs


@pytest.mark.parametrize(
    ("log", "gpudirect"),
    [
        (logs.V2_20_OR_NEAR_IB, True),
        (logs.IB_WITHOUT_GPUDIRECT, False),
        (logs.RCCL_OFI, True),
        (logs.OFI_WITHOUT_GPUDIRECT, False),
        (logs.OFI, True),
        (logs.V2_20_OR_NEAR_IB + logs.IB_WITHOUT_GPUDIRECT, False),
        (logs.V2_22_CUMEM, None),
    ],
)
def test_gpudirect_is_reported_for_traffic_to_a_network(log: str, gpudirect: bool | None) -> None:
    assert fingerprint(log).gpudirect is gpudirect


@pytest.mark.parametrize(
    ("log", "connected"),
    [
        (logs.V2_26_OR_NEAR_RINGS, ("Ring",)),
        (logs.V2_20_OR_NEAR_IB, ("Tree",)),
        (logs.V2_22_OR_NEAR_NVLS_AND_TUNING, ("NVLS",)),
        (logs.V2_21_NVLS, ()),
    ],
)
def test_what_was_connected_is_named(log: str, connected: tuple[str, ...]) -> None:
    assert fingerprint(log).connected == connected


@pytest.mark.parametrize(
    ("log", "variables"),
    [
        pytest.param(logs.V2_25_VARIABLES, {"NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16"}, id="2.25-numbers"),
        pytest.param(logs.TEXT_VARIABLES, {"NCCL_ALGO": "ring,tree", "NCCL_IB_HCA": "rxe0"}, id="texts"),
        pytest.param(logs.V2_22_CUMEM, {}, id="none"),
    ],
)
def test_the_variables_that_nccl_has_read_are_named(log: str, variables: dict[str, str]) -> None:
    assert fingerprint(log).variables == variables


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
    assert (found.nccl, found.network, found.channels, found.transports) == (
        "2.30.3",
        "IB",
        24,
        {"P2P/CUMEM": 1, "NET/IBext_v8/GDRDMA": 4},
    )


def test_without_nccl_there_is_nothing() -> None:
    assert fingerprint("\n") == Fingerprint()


@pytest.mark.parametrize(
    ("log", "shares"),
    [
        pytest.param(logs.V2_20_OR_NEAR_TUNING, {"AllGather": {"Ring/Simple": 100}}, id="2.20-named"),
        pytest.param(logs.V2_22_OR_NEAR_TUNING, {UNNAMED: {"Ring/Simple": 100}}, id="2.22-unnamed"),
        pytest.param(
            logs.V2_22_OR_NEAR_NVLS_AND_TUNING * 2,
            {UNNAMED: {"Tree/LL128": 100, "Tree/LL": 0}},
            id="2.22-numbers-of-names",
        ),
        pytest.param(
            logs.V2_29_TUNING,
            {"AllReduce": {"Tree/LL": 97, "Tree/Simple": 3}, "Broadcast": {"Ring/Simple": 100}},
            id="2.29",
        ),
        pytest.param(
            logs.V2_28_OR_NEAR_SYMMETRIC, {"AllReduce": {"AllReduce_RSxLDMC_AGxSTMC": 100}}, id="2.28-symmetric"
        ),
        pytest.param(logs.V2_21_NVLS, {}, id="tuning-not-logged"),
    ],
)
def test_the_algorithm_that_carries_most_bytes_of_a_collective_is_first(
    log: str, shares: dict[str, dict[str, float]]
) -> None:
    found = choices(log).algorithms_percent
    assert found == {name: pytest.approx(by, abs=0.1) for name, by in shares.items()}
    assert [list(by) for by in found.values()] == [list(by) for by in shares.values()]


@pytest.mark.parametrize(
    ("said", "name"),
    [("NVLS_TREE", "NVLSTree"), ("COLLNET_DIRECT", "CollNetDirect"), ("5", "NVLSTree"), ("PAT", "PAT"), ("9", "9")],
)
def test_an_algorithm_has_one_name_in_every_version(said: str, name: str) -> None:
    log = logs.V2_29_TUNING.splitlines()[2].replace("TREE", said)
    assert choices(log).algorithms_percent == {"AllReduce": {f"{name}/Simple": 100}}


def test_the_channels_of_a_collective_are_the_most_that_a_call_used() -> None:
    found = choices(logs.V2_29_TUNING + logs.V2_28_OR_NEAR_SYMMETRIC + logs.V2_20_OR_NEAR_TUNING)
    assert found.channels == {"Broadcast": 4, "AllReduce": 16}


@given(st.sets(st.integers(0, 63)))
def test_ranges_name_each_channel_once(channels: set[int]) -> None:
    parts = [part.split("-") for part in ranges(channels).split(",") if part]
    assert [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)] == sorted(channels)
