"""GPU states before and after launches, from NVML, the warnings about them, and the settings of the GPUs."""

import json
from dataclasses import replace
from typing import Any

import pynvml
import pytest

from fixtures.machine.gpu_state import (
    GpuWatch,
    LaunchReadings,
    LaunchState,
    OtherProcess,
    Reading,
    gpu_warnings,
    other_processes,
    read_gpu_settings,
    read_gpus,
    reason_names,
)
from fixtures.machine.topology import gpus
from fixtures.matrix.recorded import json_of

FINE = Reading(
    sm_mhz=1980,
    max_sm_mhz=1980,
    reasons=(),
    throttled_s={"power cap": 100.0, "thermal slowdown": 0.0},
    temperature_c=60,
    energy_j=1000.0,
    others=(),
)


def around(*after: Reading, before: Reading = FINE, lasted_s: float = 4) -> LaunchState:
    """A launch that these readings followed."""
    return LaunchState(before=(before,) * len(after), after=after, lasted_s=lasted_s)


def said(*launches: LaunchState) -> list[tuple[str, str]]:
    return [(warning.kind, warning.message) for warning in gpu_warnings(launches)]


def test_nothing_is_reported_about_gpus_that_are_fine_or_of_which_nvml_tells_nothing() -> None:
    assert said(around(FINE, FINE), around(FINE, FINE)) == said(around(Reading(), before=Reading())) == []


THROTTLED = {"power cap": 100.0, "thermal slowdown": 0.0}
NEIGHBOUR = OtherProcess(pid=4711, memory_bytes=2_100_000_000, sm_percent=37)


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        ({"throttled_s": {"power cap": 101.0, "thermal slowdown": 0.1}}, "throttled", "power cap 25 % of the time"),
        ({"throttled_s": THROTTLED | {"thermal slowdown": 3.0}}, "throttled", "thermal slowdown 75 % of the time"),
        (
            {"reasons": ("hardware thermal slowdown",), "temperature_c": 91},
            "throttled",
            "hardware thermal slowdown at 91 C",
        ),
        ({"sm_mhz": 1410}, "clocks", "SM clock 1410 of 1980 MHz"),
        ({"others": (NEIGHBOUR,)}, "neighbour", "another process (pid 4711) uses 37 % of the SMs, 2.1 GB"),
        ({"others": (OtherProcess(pid=4711),)}, "neighbour", "another process (pid 4711) is running"),
        ({"throttled_s": THROTTLED | {"power cap": 100.1}}, "", "a moment of power cap"),
        ({"throttled_s": {"reliability": 4.0}}, "", "a counter that was not there before"),
        ({"sm_mhz": 1935}, "", "clocks a step below"),
        ({"sm_mhz": 345, "reasons": ("idle",)}, "", "idle clocks"),
        ({"sm_mhz": 345, "reasons": None}, "", "perhaps idle clocks"),
        ({"others": (OtherProcess(pid=4711, memory_bytes=9, sm_percent=0),)}, "", "an idle neighbour"),
        ({"others": None}, "", "processes not told"),
        ({"reasons": ("power cap",)}, "", "power cap right after only"),
    ],
)
def test_what_spoils_a_number_is_reported_and_what_is_usual_is_not(
    changed: dict[str, Any], kind: str, says: str
) -> None:
    assert said(around(replace(FINE, **changed))) == ([(kind, f"GPU 0: {says}")] if kind else [])


def test_another_process_is_reported_before_what_it_may_cause() -> None:
    slowed = replace(FINE, throttled_s=THROTTLED | {"power cap": 103.0}, sm_mhz=1470)
    launches = around(slowed, FINE), around(FINE, replace(slowed, others=(NEIGHBOUR,)))
    assert [kind for kind, _ in said(*launches)] == ["neighbour", "throttled", "clocks"]


def test_gpus_and_launches_share_a_remark_with_the_worst_number() -> None:
    hot, hotter = (replace(FINE, throttled_s=THROTTLED | {"power cap": seconds}) for seconds in (101.0, 102.0))
    assert said(around(hot, hot, FINE, hotter), around(hot, FINE, FINE, hot)) == [
        ("throttled", "GPU 0-1,3: power cap 50 % of the time")
    ]


def test_mean_power_is_the_energy_between_the_readings() -> None:
    assert LaunchReadings.of(around(replace(FINE, energy_j=3400.0))).mean_power_w == 600
    assert LaunchReadings.of(around(replace(FINE, energy_j=None))).mean_power_w is None


def test_a_launch_is_recorded_and_what_is_the_same_of_several_gpus_once() -> None:
    state = around(replace(FINE, sm_mhz=1410, energy_j=1400.0, others=(OtherProcess(pid=1),)))
    told = json.loads(json.dumps(json_of(LaunchReadings.of(state))))
    assert (told["before"]["sm_mhz"], told["after"]["sm_mhz"], told["mean_power_w"]) == (1980, 1410, 100)
    assert told["throttled_percent"] == {"power cap": 0, "thermal slowdown": 0}
    assert told["after"]["others"] == [{"pid": 1, "memory_bytes": None, "sm_percent": None}]
    hot = replace(FINE, temperature_c=71, reasons=("power cap", "thermal slowdown"))
    told = json_of(LaunchReadings.of(LaunchState(before=(FINE, FINE), after=(FINE, hot), lasted_s=10.0)))
    assert told["before"]["temperature_c"] == FINE.temperature_c
    assert told["after"]["temperature_c"] == [FINE.temperature_c, 71]
    assert told["after"]["reasons"] == ["", "power cap, thermal slowdown"]
    assert told["after"]["sm_mhz"] == 1980


@pytest.mark.parametrize(
    ("memory_bytes", "sm_percent", "others"),
    [
        ({10: 5, 11: 5}, {10: 90}, ()),
        ({10: 5, 99: 7}, {99: 40}, (OtherProcess(pid=99, memory_bytes=7, sm_percent=40),)),
        ({10: 5, 99: 7}, {}, (OtherProcess(pid=99, memory_bytes=7, sm_percent=0),)),
        ({10: 5, 99: None}, None, (OtherProcess(pid=99),)),
        ({77: 5, 99: 7}, {99: 40}, None),  # ids of another namespace
        ({}, {}, ()),
    ],
    ids=["only ours", "a neighbour", "an idle one", "use not told", "another namespace", "none"],
)
def test_others_are_the_processes_that_are_not_ours(
    memory_bytes: dict[int, int | None], sm_percent: dict[int, int] | None, others: tuple[OtherProcess, ...] | None
) -> None:
    assert other_processes(memory_bytes, sm_percent, {10, 11}) == others


def test_reasons_are_words_and_an_unknown_one_its_number() -> None:
    power_and_idle = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonGpuIdle
    assert reason_names(0) == ()
    assert reason_names(power_and_idle) == ("idle", "power cap")
    assert reason_names(power_and_idle | 1 << 40) == ("idle", "power cap", "0x10000000000")


@pytest.mark.skipif(len(gpus()) > 0, reason="this machine has a GPU")
def test_without_a_gpu_nothing_is_read() -> None:
    assert read_gpus(8, ours=(), since_us=0) == ()
    assert GpuWatch(8).end(ours=()) is None


# Settings of the GPUs: each either read or unknown, and none without a GPU


def test_each_gpu_that_is_not_hidden_has_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_gpu_settings()
    assert len(settings) == len(gpus())
    assert all(gpu.power_limit_w is None or 0 < gpu.power_limit_w < 10_000 for gpu in settings)
    assert all(gpu.mig is not True for gpu in settings)  # such GPUs are refused
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert read_gpu_settings() == ()
