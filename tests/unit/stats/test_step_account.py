"""The account of a step, from the host's time, a profile, and what no_comm saves; longer steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fixtures.stats.step_account import (
    AHEAD,
    DeviceTime,
    HostTime,
    LongerSteps,
    RankAccount,
    RankCpus,
    Share,
    account_of,
    critical_rank,
    crowded,
    grows_percent,
    host_time,
    usual,
)
from fixtures.stats.step_limit import limited_by
from tests.builders import known

LOOP = {"loader": 0.010, "forward": 0.020, "backward": 0.060, "update": 0.010, "own": 0.0}


def host(lead_ms: float | None = None, steps: int = 16, **more_s: float) -> HostTime:
    return host_time([LOOP | more_s] * steps, {}, lead_ms=lead_ms)


def device(compute: float, transfer: float = 0, copy: float = 0, *, step: float = 100, **more: Any) -> DeviceTime:
    return DeviceTime(step=step, compute=compute, transfer=transfer, copy=copy, **{"waiting": {}, **more})


def cpu(*hosts: HostTime, devices: list[DeviceTime] | None = None, saved: Share | None = None) -> list[RankAccount]:
    measured_ms = sum(hosts[0].phases_ms.values())
    return account_of(hosts, devices or [], measured_ms=measured_ms, on_gpu=False, saved=saved).ranks


def test_a_phase_is_divided_by_the_weight_of_its_samples() -> None:
    """A call that holds the GIL has one sample, that weighs as long as the call."""
    weights = {("own", "held"): [0.03], ("own", "free"): [0.005] * 2, ("loader", "next"): [0.004]}
    found = host_time([{"own": 0.08, "loader": 0.02}] * 9, weights)
    assert {line.line: line.ms for line in found.lines} == pytest.approx({"held": 60, "free": 20, "next": 20})
    errors = {line.line: line.error_ms for line in found.lines}
    assert errors["held"] > errors["next"] == 0
    assert sum(found.phases_ms.values()) == pytest.approx(100)


def test_on_the_cpu_communication_is_taken_out_of_the_phase_in_which_it_lies() -> None:
    sent = device(60, 30, waiting={"1": 10.0}, in_phases={"backward": 38.0, "forward": 2.0, "own range": 40.0})
    (first, _) = cpu(host(), host(), devices=[sent, device(60, 40)])
    assert first.host_ms == pytest.approx(
        {"loader": 10, "forward": 18, "backward": 22, "update": 10, "own": 0, "transfer": 30, "waiting": 10}
    )
    assert first.waiting_ms == pytest.approx({"1": 10})


def test_a_part_is_as_unsure_as_the_waiting_that_is_taken_out_of_it() -> None:
    sent = device(60, 30, waiting={"1": 10.0}, waiting_error=4.0, in_phases={"backward": 40.0})
    (first, _) = cpu(host(), host(), devices=[sent, device(60, 40)])
    assert first.errors_ms == pytest.approx(dict.fromkeys(LOOP, 0.0) | {"backward": 4.0, "waiting": 4.0})


def test_a_collective_of_the_script_is_communication_with_and_without_a_profile() -> None:
    own = host(collective=0.046)
    without, _ = cpu(own, own)
    assert (without.host_ms["transfer"], without.host_ms["backward"]) == (46, 60)
    sent = device(60, 40, in_phases={"get batch": 40.0})
    profiled, _ = cpu(own, own, devices=[sent, sent])
    assert (profiled.host_ms["transfer"], profiled.host_ms["backward"]) == (46, 60)


def test_without_a_profile_what_no_comm_saves_is_communication_if_that_is_decided() -> None:
    saved = Share(likely=30, least=28, most=32)
    first, _ = cpu(host(), host(), saved=saved)
    assert [first.host_ms["transfer"], first.host_ms["backward"]] == pytest.approx([30, 30])
    undecided = account_of([host()] * 2, [], measured_ms=100, on_gpu=False, saved=Share(likely=30, least=-5, most=60))
    assert not undecided.sent_known
    assert account_of([host()], [], measured_ms=100, on_gpu=False, saved=Share(likely=0, least=0, most=0)).sent_known


def test_no_rank_sends_for_longer_than_no_comm_saves() -> None:
    """A rank that waits for a core looks in its profile like one that sends."""
    sent = device(50, 40, in_phases={"backward": 40.0})
    first, _ = cpu(host(), host(), devices=[sent] * 2, saved=Share(likely=4, least=3, most=5))
    assert first.host_ms["transfer"] == pytest.approx(5)


def test_what_no_comm_saves_beyond_transfer_and_waiting_is_the_rest() -> None:
    sent = device(60, 20, in_phases={"backward": 20.0})
    saved = Share(likely=28, least=27, most=29)
    account = account_of([host()] * 2, [sent] * 2, measured_ms=100, on_gpu=False, saved=saved)
    assert account.rest_percent == pytest.approx(8)


def test_a_profile_that_made_steps_longer_is_scaled_to_the_step() -> None:
    """The rank that logs takes twice as long under the profiler."""
    waits = device(2, 8, step=200, waiting={"1": 100.0}, in_phases={"backward": 108.0})
    first, _ = cpu(host(), host(), devices=[waits, device(190, 8, step=200)])
    assert (first.host_ms["transfer"], first.waiting_ms["1"]) == pytest.approx((4, 50))


@pytest.mark.parametrize(
    ("threads", "cpus", "hosts", "said"),
    [
        (16, [[0, 1], [0, 1]], 1, "16 threads a rank on 2 CPUs"),
        (1, [[0], [0]], 1, "2 ranks on 1 CPU"),
        (1, [[0], [0]], 2, None),
        (1, [[0, 1], [0, 1]], 1, None),
    ],
)
def test_ranks_are_crowded_if_their_host_has_fewer_cpus(
    threads: int, cpus: list[list[int]], hosts: int, said: str | None
) -> None:
    assert crowded([RankCpus(threads=threads, cpus=of) for of in cpus], hosts) == said


def gpu(one: DeviceTime | None, *, lead_ms: float = 0, saved: Share | None = None) -> RankAccount:
    (rank,) = account_of([host(lead_ms)], [] if one is None else [one], measured_ms=100, on_gpu=True, saved=saved).ranks
    return rank


def test_on_a_gpu_idle_is_what_the_profile_leaves_of_the_measured_step() -> None:
    """A profiler that made the step 40 % longer, and ranks late, changes neither compute nor transfer."""
    found = gpu(device(60, 10, 2, step=140, waiting={"1": 38.0}))
    assert found.device_ms == pytest.approx({"compute": 60, "transfer": 10, "copy": 2, "waiting": 0, "idle": 28})
    waits = gpu(device(60, 10, waiting={"1": 20.0}))
    assert waits.device_ms == pytest.approx({"compute": 60, "transfer": 10, "copy": 0, "waiting": 20, "idle": 10})
    assert waits.waiting_ms == pytest.approx({"1": 20})


def test_a_device_of_whose_value_the_host_waits_waits_for_the_other_rank() -> None:
    """In the profiled steps the other rank was the late one."""
    loads = host_time([{"loader": 0.066, "forward": 0.042, AHEAD: 0.027}] * 16, {}, lead_ms=20.0)
    account = account_of(
        [loads, host_time([{"forward": 0.044, AHEAD: 0.091}] * 16, {}, lead_ms=20.0)],
        [device(63, 0, waiting={"1": 20.0}, step=135), device(60, 0, step=135)],
        measured_ms=135,
        on_gpu=True,
    )
    assert account.ranks[1].device_ms == pytest.approx(
        {"compute": 60, "transfer": 0, "copy": 0, "waiting": 31, "idle": 44}
    )
    assert (critical_rank(account.ranks), limited_by(account).by) == (0, "loader")


def test_the_rank_whose_host_waits_least_for_the_device_is_the_one_that_others_wait_for() -> None:
    """Of two launches of an ImageNet example; in the profiled steps rank 1 waited for rank 0."""
    waits = host_time([{"loader": 0.001, "forward": 0.045, AHEAD: 0.059}] * 16, {}, lead_ms=20.0)
    account = account_of(
        [waits, host_time([{"loader": 0.040, "forward": 0.036, AHEAD: 0.029}] * 16, {}, lead_ms=20.0)],
        [device(60, 0, step=105), device(63, 0, waiting={"0": 12.0}, step=105)],
        measured_ms=105,
        on_gpu=True,
    )
    assert limited_by(account).by == "loader"


def test_a_profile_whose_compute_is_longer_than_the_measured_step_gives_nothing() -> None:
    account = account_of([host(0.0)], [device(120)], measured_ms=100, on_gpu=True)
    assert account.withheld == "compute alone takes 120.0 ms of the profiled step, the measured one 100.0"


def test_without_a_profile_a_gpu_that_the_host_is_ahead_of_is_busy() -> None:
    saved = Share(likely=30, least=28, most=32)
    ahead = gpu(None, lead_ms=50, saved=saved)
    assert ahead.device_ms is not None
    assert ahead.device_ms["compute"] == pytest.approx(70)
    assert gpu(None, lead_ms=50).device_ms is None
    assert gpu(None, lead_ms=2, saved=saved).device_ms is None


def test_the_time_in_which_the_host_is_ahead_is_a_part_of_its_step() -> None:
    short: Mapping[str, float] = {"forward": 0.02, "backward": 0.03, AHEAD: 0.05}
    (rank,) = account_of([host_time([short] * 16, {}, lead_ms=800.0)], [], measured_ms=100, on_gpu=True).ranks
    assert rank.host_ms == pytest.approx({"forward": 20, "backward": 30, AHEAD: 50})


def test_shares_of_steps_unlike_the_measured_ones_are_withheld() -> None:
    account = account_of([host()] * 2, [], measured_ms=80, on_gpu=False)
    assert account.withheld == "the watched steps took 25 % longer than the measured ones: run it again"
    assert [rank.step_ms for rank in account.ranks] == pytest.approx([100, 100])
    sampled = replace(host(), sampling_percent=25.0, lead_ms=50.0)  # of a GPU that is behind sampled steps count too
    assert account_of([sampled] * 2, [], measured_ms=80, on_gpu=True).ranks == []
    assert account_of([replace(sampled, lead_ms=0.0)] * 2, [], measured_ms=80, on_gpu=True).ranks != []
    late_by_turns = [replace(host(), step_s=[0.1, 0.14] * 8), replace(host(), step_s=[0.14, 0.1] * 8)]
    assert account_of(late_by_turns, [], measured_ms=140, on_gpu=False).withheld is None


def test_parts_that_do_not_add_up_to_the_step_are_an_error() -> None:
    with pytest.raises(AssertionError, match=r"parts .* of a step of 3 ms"):
        RankAccount(step_ms=3, host_ms={"own": 2}, errors_ms={})


# Steps that take longer than all others, and steps that get longer


@pytest.mark.parametrize(
    ("step_s", "number", "percent", "over_percent"),
    [
        ([*[1.0] * 14, 3.0, 5.0], 2, 8 / 0.22, 37.5),
        ([*[1.0] * 9, *[1.3] * 4, 2.0, 2.0, 2.0], 3, 6 / 0.202, 26.25),  # apart from the longest of the others
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0], 2, 40, 25),
    ],
)
def test_steps_that_do_other_work_are_longer_than_all_others(
    step_s: list[float], number: int, percent: float, over_percent: float
) -> None:
    found = known(LongerSteps.among(step_s))
    assert (found.number, found.measured) == (number, len(step_s))
    assert (found.percent, found.over_percent) == pytest.approx((percent, over_percent))
    assert found.times == pytest.approx(sum(sorted(step_s)[-number:]) / number)


@pytest.mark.parametrize(
    "step_s",
    [
        [*[1.0] * 15, 9.0],  # one alone may be other work
        [*[1.0] * 5, 3.0, 5.0],  # too few
        [*[1.0] * 14, 1.3, 1.3],  # not much longer
        [*[1.0] * 10, *[1.3] * 4, 1.7, 1.7],  # not apart
        [*[1.0] * 58, 1.5, 1.5],  # 2 % on average
        [*[1.0] * 16, *[3.0] * 14],  # of two kinds, both usual, as with batches of uneven length
    ],
)
def test_other_steps_are_of_one_kind(step_s: list[float]) -> None:
    assert LongerSteps.among(step_s) is None


def test_each_eighth_step_is_longer() -> None:
    step_s = [9.0 if number % 8 == 3 else 1.0 for number in range(32)]
    found = known(LongerSteps.among(step_s))
    assert (found.period, found.places) == (8, (3, 11, 19, 27))
    assert usual(step_s) == [number for number in range(32) if number % 8 != 3]
    unsteady = known(LongerSteps.among([9.0 if number in (3, 11, 20) else 1.0 for number in range(32)]))
    assert unsteady.period is None


def test_one_step_that_is_longer_alone_is_not_named_and_does_not_count() -> None:
    assert usual([1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0]) == [0, 1, 2, 4, 5, 6, 7]


def test_where_many_steps_are_longer_all_of_them_count() -> None:
    assert usual([1.0, 1.0, 3.0] * 10) == [*range(30)]


def test_steps_that_get_longer_do_so_all_the_time() -> None:
    assert grows_percent([1 + number / 100 for number in range(64)]) == pytest.approx(56 / 1.035, rel=0.01)
    assert grows_percent([1 + number / 10_000 for number in range(64)]) is None
    assert grows_percent([1.0] * 32 + [1.5] * 32) is None
    assert grows_percent([1 + number / 100 for number in range(31)]) is None
