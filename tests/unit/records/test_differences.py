"""The cause of a slower config, from its record and this run."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.records.baselines import Recorded
from fixtures.records.differences import REMEDIES, Snapshot, cause, differences, in_no_record, variables_to_try
from fixtures.records.schema import UNKNOWN
from fixtures.session.measure import cause_since
from tests.builders import snapshot

# What every record of a test has.
BARE: dict[str, Any] = {"workload": "vit_l_32", "launch_medians_s": [0.1]}
INFO: dict[str, Any] = {
    **BARE,
    "steps_per_s": 10.0,
    "breakdown_ms": {"compute": 85.0, "exposed_communication": 10.0, "exposed_copy": 1.0, "idle": 4.0},
    "phases_ms": {"input": 1.0, "forward": 30.0, "backward": 64.0, "optimizer": 5.0},
    "transport": {"P2P/CUMEM": 16},
    "fingerprint": {"nccl": "2.28.9", "channels": 16, "nvls_channels": 16, "network": "IB", "gpudirect": True},
    "algorithms_percent": {"AllReduce": {"Ring/Simple": 97.0, "Tree/LL": 3.0}, "Broadcast": {"Ring/Simple": 100.0}},
    "gpu_state": {
        "launches": [],
        "gpu_warnings": [{"kind": "throttled", "message": "GPU 0: power cap 9 % of the time"}],
    },
    "wire_dtype": "bfloat16",
    "wire_bytes_per_step": 1000,
    "buckets": 2,
    "bucket_bytes": [400, 600],
    "all_reduces": 11,
    "waiting_ms": 1.0,
    "late_ranks": {"0": 3, "1": 2},
    "starved_ms": 0.5,
    "unfed_ms": 0.1,
}
SOFTWARE = {
    "torch": "2.11.0",
    "nccl": "2.28.9",
    "host": "a",
    "gpu_uuids": ["1"],
    "variables": {"NCCL_ALGO": "Ring"},
    "topology": {"links": "28 x NV18", "nvlinks": "8 x 18 of 18 up", "peer_access": "28 x ok"},
}


def why(info: dict[str, Any] | None = None, **software: Any) -> str:
    """The cause when a step takes 12 ms longer and this differs."""
    now = {**INFO, "steps_per_s": 1 / 0.112, **(info or {})}
    return cause(snapshot(INFO, SOFTWARE), snapshot(now, {**SOFTWARE, **software}))


def test_cpus_of_the_ranks_and_what_a_step_keeps_are_differences() -> None:
    def side(threads: int, kept: list[dict[str, Any]] | None) -> dict[str, Any]:
        return {**INFO, "rank_cpus": [{"threads": threads, "cpus": [0]}], "kept": kept}

    objects = [{"of": "objects", "number": 156}]
    before, now = (snapshot(side(*of), SOFTWARE) for of in ((1, []), (4, objects)))
    assert differences(before, now) == ["threads a rank 1 -> 4", "each step keeps 0 -> 156 objects"]
    assert differences(snapshot(side(1, None), SOFTWARE), snapshot(side(1, objects), SOFTWARE)) == []


def test_the_part_and_the_phase_that_grew_are_named_and_none_that_shrank() -> None:
    breakdown = {**INFO["breakdown_ms"], "exposed_communication": 21.9, "idle": 4.2}
    phases = {**INFO["phases_ms"], "backward": 75.8}
    expected = (
        "+12 ms a step: exposed communication +11.9 ms, in backward +11.8 ms; nothing else that is recorded differs"
    )
    assert why({"breakdown_ms": breakdown, "phases_ms": phases}) == expected
    shrunk = {**INFO["breakdown_ms"], "exposed_communication": 30.0, "idle": 0.0}
    assert why({"breakdown_ms": shrunk}).startswith("+12 ms a step: exposed communication +20 ms;")


@pytest.mark.parametrize(("profiled_ms", "named"), [(117.0, True), (118.0, False)])
def test_no_part_of_a_breakdown_is_a_cause_where_the_profiler_slowed_the_host(profiled_ms: float, named: bool) -> None:
    """By more than 5 % of the measured 112 ms; the phases are those of the measured launches."""
    breakdown = {"compute": 91.0, "exposed_communication": 15.0, "exposed_copy": 4.0, "idle": 11.0}
    steps = {"profiled_step_ms": profiled_ms, "measured_step_ms": 112.0, "backend": "nccl"}
    grown = {"phases_ms": {**INFO["phases_ms"], "backward": 75.8}, "waiting_ms": 6.0, "starved_ms": 8.0}
    told = why({"breakdown_ms": breakdown, **steps, **grown})
    parts = ("compute +6 ms", "exposed communication +5 ms", "exposed copies +3 ms", "idle +7 ms")
    whats = (*parts, "is late", "waits for the host")
    assert [what in told for what in whats] == [named] * len(whats)
    assert "in backward +11.8 ms" in told
    assert ("; the profiler slowed the host, so its breakdown names no part" in told) is not named


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (
            {"transport": {"SHM/direct": 12, "P2P/CUMEM": 4}},
            "is SHM/direct on 12 of 16 channels and P2P/CUMEM on 4 of 16",
        ),
        ({"fingerprint": {"channels": 8, "nvls_channels": 16}}, "NCCL's channels 16 -> 8"),
        ({"fingerprint": {"nvls_channels": 0}}, "NVLS channels 16 -> 0"),
        ({"fingerprint": {"network": "Socket", "gpudirect": False}}, "network IB -> Socket; GPUDirect yes -> no"),
        (
            {"algorithms_percent": {"AllReduce": {"Ring/Simple": 40.0, "Tree/LL128": 60.0}}},
            "algorithm of AllReduce Ring/Simple -> Tree/LL128",
        ),
        ({"wire_dtype": "float32"}, "dtype on the wire bfloat16 -> float32"),
        ({"wire_bytes_per_step": 2000}, "wire bytes per step 1000 -> 2000"),
        ({"all_reduces": 1}, "all-reduces per step 11 -> 1"),
        ({"buckets": 1, "bucket_bytes": [1000000]}, "buckets 2 -> 1; largest bucket 0.0 -> 1.0 MB"),
        ({"waiting_ms": 12.0, "late_ranks": {"0": 3, "1": 40}}, "rank 1 is late: the others wait for it +11 ms"),
        ({"starved_ms": 12.0, "unfed_ms": 11.0}, "the device waits for a batch +10.9 ms"),
        ({"starved_ms": 12.0}, "the device waits for the host +11.5 ms"),
    ],
)
def test_what_moved_is_named(info: dict[str, Any], told: str) -> None:
    assert told in why(info)


KERNELS = {"gemm": (60.0, 96), "add": (20.0, 48), "fused": (5.0, 24)}
LISTED = {f"kernel {number}": (2.0, 1) for number in range(60)}


@pytest.mark.parametrize(
    ("then", "today", "told"),
    [
        (KERNELS, {**KERNELS, "add": (24.1, 72)}, ["+24 x add: +4.1 ms"]),
        (KERNELS, {**KERNELS, "cast": (8.0, 24)}, ["+24 x cast: +8 ms"]),
        (KERNELS, {**KERNELS, "gemm": (72.0, 96)}, ["96 x gemm: +12 ms"]),
        (
            KERNELS,
            {"gemm": (60.0, 96), "add": (20.0, 48), "mul": (9.0, 24), "exp": (8.0, 24)},
            ["+24 x mul: +9 ms", "+24 x exp: +8 ms", "-24 x fused: -5 ms"],
        ),
        (KERNELS, {**KERNELS, "gemm": (60.9, 96)}, []),  # of a change of 12 ms
        (KERNELS, None, []),
        (None, KERNELS, []),
        # Sixty are listed, of which each takes longer: it may have been among the others.
        (LISTED, {**LISTED, "new": (1.9, 1)}, []),
        (LISTED, {**LISTED, "new": (2.1, 1)}, ["+1 x new: +2.1 ms"]),
    ],
)
def test_the_kernels_that_changed_are_named(then: Any, today: Any, told: list[str]) -> None:
    before, now = ({**BARE, "steps_per_s": 10.0, "kernels": kernels} for kernels in (then, today))
    found = cause(snapshot(before, {}), snapshot({**now, "steps_per_s": 1 / 0.112}, {}))
    assert found.partition("; next: ")[0] == "; ".join(
        ["+12 ms a step", *(told or ["nothing else that is recorded differs"])]
    )


@pytest.mark.parametrize(
    ("today", "told"),
    [
        ({**KERNELS, "gemm": (72.0, 96)}, "96 x gemm: +12 ms"),
        ({**KERNELS, "add": (32.0, 50)}, "+2 x add: +12 ms"),
        ({"new_gemm": (72.0, 96), "add": (20.0, 48), "fused": (5.0, 24)}, "96 x matrix products: +12 ms"),
        ({"new_gemm": (72.0, 97), "add": (20.0, 48), "fused": (5.0, 24)}, "other kernels, as in another build"),
        ({"gemm": (60.0, 96), "add": (20.0, 48), "other": (17.0, 24)}, "other kernels, as in another build"),
    ],
)
def test_kernels_of_another_build_are_compared_by_their_names_or_by_what_they_do(today: Any, told: str) -> None:
    before = snapshot({**BARE, "steps_per_s": 10.0, "kernels": KERNELS}, {"torch": "2.11.0"})
    now = snapshot({**BARE, "steps_per_s": 1 / 0.112, "kernels": today}, {"torch": "2.12.0"})
    assert cause(before, now).partition("; next: ")[0] == f"+12 ms a step; torch 2.11.0 -> 2.12.0; {told}"


WORK: dict[str, Any] = {
    "kernels": {},
    "collectives": {"all_reduce of 9 float32": 2},
    "copies": {},
    "calls": {"wait": 0},
}


@pytest.mark.parametrize(
    ("today", "told"),
    [
        ({"collectives": {"all_reduce of 9 float32": 3}}, "+1 x all_reduce of 9 float32"),
        (
            {"collectives": {"all_reduce of 18 float32": 1}},
            "-2 x all_reduce of 9 float32; +1 x all_reduce of 18 float32",
        ),
        ({"copies": {"DtoD of 4096 bytes": 2}}, "+2 x DtoD of 4096 bytes"),
        ({"calls": {"wait": 1}}, "calls per step in which the host waits for the device 0 -> 1"),
        ({"calls": {"wait": None}}, "nothing else that is recorded differs"),
        ({}, "nothing else that is recorded differs"),
    ],
)
def test_collectives_copies_and_waits_that_changed_are_named(today: dict[str, Any], told: str) -> None:
    before, now = ({**BARE, "steps_per_s": 10.0, "work": {**WORK, **work}} for work in ({}, today))
    assert cause(snapshot(before, {}), snapshot(now, {})).partition("; next: ")[0] == f"+0 ms a step; {told}"


LATE: dict[str, Any] = {"waiting_ms": 21.0, "late_ranks": {"1": 20}, "matched_collectives": 20}
IDLE = {"compute": 80.0, "exposed_communication": 0.0, "exposed_copy": 0.0, "idle": 40.0}
WAITS = {**IDLE, "exposed_communication": 40.0, "idle": 0.0}


@pytest.mark.parametrize(
    ("info", "told", "remedy"),
    [
        (LATE, "rank 1 is late in 100 % of the collectives: the others wait for it +20 ms", "late rank"),
        (
            {**LATE, "breakdown_by_rank_ms": [WAITS, IDLE], "unfed_ms": 20.1, "loader_workers": [8, 1]},
            "in 100 % of the collectives, by its input, with 1 loader worker where others have 8: the others wait",
            "late input",
        ),
        ({**LATE, "breakdown_by_rank_ms": [WAITS, IDLE]}, ", by its host: the others", "late host"),
        ({**LATE, "late_phase": "load", "late_phase_ms": 20.0}, "collectives, by 20 ms in load: the", "late rank"),
        ({**LATE, "late_phase": "get batch", "late_phase_ms": 20.0}, ", by 20 ms in get batch: ", "late input"),
        ({"starved_ms": 12.0, "unfed_ms": 11.0}, "waits for a batch +10.9 ms", "input"),
        ({"starved_ms": 12.0}, "waits for the host +11.5 ms", "host"),
        ({"starved_ms": 12.0, "work": {**WORK, "calls": {"wait": 3}}}, "waits for the device 0 -> 3", "waits"),
        ({"transport": {"SHM/direct": 12}}, "transport was P2P", "transport"),
        ({"buckets": 1}, "buckets 2 -> 1", "collectives"),
        ({"work": {**WORK, "copies": {"DtoD of 9 bytes": 1}}}, "+1 x DtoD of 9 bytes", "copies"),
        ({"kernels": {"add": (12.0, 9)}}, "+9 x add: +12 ms", "kernels"),
    ],
)
def test_a_frequent_cause_has_one_next_move(info: Any, told: str, remedy: str) -> None:
    before = snapshot({**INFO, "work": WORK, "kernels": {"mm": (50.0, 9)}}, SOFTWARE)
    now = {**INFO, "work": WORK, "kernels": {"mm": (50.0, 9)}, "steps_per_s": 1 / 0.112}
    now |= info if "kernels" not in info else {"kernels": now["kernels"] | info["kernels"]}
    found = cause(before, snapshot(now, SOFTWARE))
    assert told in found
    assert found.endswith(f"; next: {REMEDIES[remedy]}")
    assert found.count("next: ") == 1


NEIGHBOUR = {"kind": "neighbour", "message": "GPU 3: another process (pid 4711) uses 37 % of the SMs"}


def test_what_is_wrong_with_a_gpu_since_the_record_is_named() -> None:
    worse = {"kind": "throttled", "message": "GPU 0: power cap 30 % of the time"}
    now = {"gpu_state": {"launches": [], "gpu_warnings": [worse, NEIGHBOUR]}}
    assert why(now) == f"+12 ms a step; {NEIGHBOUR['message']}; next: {REMEDIES['gpu']}"


def test_a_record_that_was_not_profiled_or_saw_no_gpus_reports_what_it_has() -> None:
    bare = snapshot({**BARE, "steps_per_s": 10.0}, {})
    assert cause(bare, bare) == "+0 ms a step; nothing else that is recorded differs"
    now = snapshot({**BARE, "steps_per_s": 10.0, "gpu_state": {"launches": [], "gpu_warnings": [NEIGHBOUR]}}, {})
    assert cause(bare, now) == f"+0 ms a step; {NEIGHBOUR['message']}; next: {REMEDIES['gpu']}"


@pytest.mark.parametrize(
    ("software", "told"),
    [
        (
            {"topology": {"links": "27 x NV18, 1 x SYS", "nvlinks": "8 x 18 of 18 up"}},
            "links between GPUs 28 x NV18 -> 27 x NV18, 1 x SYS",
        ),
        (
            {"topology": {"links": "", "peer_access": "28 x not supported"}},
            "peer access between GPUs 28 x ok -> 28 x not",
        ),
        ({"torch": "2.15.0", "nccl": "2.30.7"}, "torch 2.11.0 -> 2.15.0; NCCL 2.28.9 -> 2.30.7"),
        ({"host": "b", "gpu_uuids": ["2"]}, "host a -> b; other GPUs of the same kind"),
        ({"variables": {"NCCL_ALGO": "Tree"}}, "NCCL_ALGO Ring -> Tree"),
        ({"variables": {}}, "NCCL_ALGO Ring -> unset"),
    ],
)
def test_what_changed_around_is_named(software: dict[str, Any], told: str) -> None:
    assert told in why(**software)


@pytest.mark.parametrize(
    "info",
    [
        {"algorithms_percent": {"AllReduce": {"Ring/Simple": 60.0, "Tree/LL": 40.0}}},
        {"algorithms_percent": {"AllGather": {"PAT/Simple": 100.0}}},
        {"algorithms_percent": None, "fingerprint": None},
        {"fingerprint": {"nccl": "2.28.9", "channels": None, "pairs": {"0 -> 1": {"SHM": "0"}}}},
    ],
)
def test_what_a_log_does_not_say_and_what_carries_most_as_before_is_no_cause(info: dict[str, Any]) -> None:
    assert why(info) == "+12 ms a step; nothing else that is recorded differs"


# Of which record the breakdown is


def recorded(**profiled: float) -> tuple[Recorded, Snapshot]:
    """Records of 100 ms a step of which the newest was not profiled, and, by file, older ones that were, with their
    steps/s."""
    last = snapshot({**BARE, "steps_per_s": 10.0}, SOFTWARE)
    older = {f"{name}.json": snapshot({**INFO, "steps_per_s": speed}, SOFTWARE) for name, speed in profiled.items()}
    return Recorded(workload="vit_l_32", last=last, profiled=older), last


NOW = snapshot({**INFO, "steps_per_s": 1 / 0.112, "breakdown_ms": {**INFO["breakdown_ms"], "idle": 16.0}}, SOFTWARE)


def test_the_newest_profiled_record_that_was_not_as_slow_says_which_part_grew() -> None:
    told = cause_since(*recorded(older=11.0, newer=10.0), NOW)
    assert told.startswith("since newer.json, the newest profiled record of this test: +12 ms a step: idle +12 ms")
    assert cause_since(*recorded(older=8.0), NOW).startswith("+12 ms a step")
    assert cause_since(*recorded(), NOW).endswith("no record of this test was profiled: record one with --explain all")
    now = snapshot({**BARE, "steps_per_s": 1 / 0.112}, SOFTWARE)
    assert cause_since(*recorded(older=10.0), now) == "+12 ms a step; nothing else that is recorded differs"


NIGHT = {"driver": "580.1", "torch": "2.11", "cores": 32.0, "variables": {"NCCL_ALGO": "Ring"}}


@pytest.mark.parametrize(
    ("environment", "info", "found"),
    [
        ({"variables": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}}, {}, ["NCCL_PROTO=LL is set"]),
        ({"variables": {}}, {}, ["NCCL_ALGO is unset"]),
        ({"variables": {"NCCL_ALGO": "Tree"}}, {}, ["NCCL_ALGO=Tree is set"]),
        ({"driver": "590.2", "host": "rack-8"}, {}, ["driver 590.2"]),
        ({"cores": 4.0}, {}, ["cores per rank 2"]),
        ({}, {"transport": {"SHM/direct/direct": 8}}, ["transport SHM/direct/direct"]),
        ({}, {"rank_cpus": [{"threads": 16, "cpus": [0, 1]}] * 2}, ["threads a rank 16"]),
        ({"torch": "2.10"}, {}, []),
        ({"torch": None, "variables": None}, {}, []),
    ],
)
def test_what_no_record_has_is_a_suspect(environment: dict[str, Any], info: dict[str, Any], found: list[str]) -> None:
    def night(environment: dict[str, Any], **info: Any) -> Snapshot:
        ranks = [{"threads": 1, "cpus": [0, 1]}] * 2
        of_all = {**BARE, "world_size": 2, "transport": {"P2P/CUMEM": 8}, "rank_cpus": ranks}
        return snapshot(of_all | info, NIGHT | environment)

    assert in_no_record([night({}), night({"torch": "2.10"})], night(environment, **info)) == found


def test_a_host_that_limits_the_step_now_is_a_suspect_and_a_cause() -> None:
    """As an added synchronisation does: a step of 100 ms that the host launched 30 ms ahead."""

    def night(lead_ms: float | None) -> Snapshot:
        return snapshot({**BARE, "config": "ddp", "steps_per_s": 10.0, "host_lead_ms": lead_ms}, SOFTWARE)

    assert in_no_record([night(30), night(None)], night(0.1)) == ["the host launches ddp with no lead over the GPU"]
    assert in_no_record([night(30), night(0.2)], night(0.1)) == []
    assert in_no_record([night(None)], night(0.1)) == []
    assert "the host launches 0.1 ms ahead of the GPU, was 30 ms" in cause(night(30), night(0.1))
    assert "the host" not in cause(night(0.2), night(0.1)) + cause(night(None), night(0.1))


def test_variables_to_try_are_those_of_the_step_that_a_command_can_give() -> None:
    """Not of an image, of a log, of a secret, nor what a record of anybody's has for a name or a value."""
    then = replace(
        UNKNOWN,
        variables={
            "NCCL_ALGO": "Tree",
            "NCCL_PROTO": "LL",
            "NCCL_VERSION": "2.27",
            "TORCH_LOGS": "+dynamo",
            "NCCL_API_TOKEN": "(not recorded)",
            "NCCL_X; reboot": "1",
            "NCCL_BUFFSIZE": "1\x1b[2J",
        },
    )
    today = replace(UNKNOWN, variables={"NCCL_ALGO": "Ring", "NCCL_MAX_CTAS": "4", "NCCL_VERSION": "2.28"})
    assert variables_to_try(then, today) == {
        "NCCL_ALGO": ("Tree", "Ring"),
        "NCCL_MAX_CTAS": (None, "4"),
        "NCCL_PROTO": ("LL", None),
    }
