"""The limit of a step, from marks and profiles made by hand and from those of shipped records."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from fixtures.launch.script import LaunchLine
from fixtures.records.config_comparison import disturbance_of
from fixtures.records.files import checked
from fixtures.records.measurement import Cell, Measurement
from fixtures.records.step_limits import step_limits
from fixtures.stats.step_limit import StepLimit
from fixtures.trace.profile import Profile, StepParts
from tests.builders import launch, measured
from tests.command_line import ROOT
from tests.saved_records import read

INPUT, TRANSFER, COMPUTE = "input", "transfer", "compute"


def marked(config: str, *ms: float, percent: float = 1, world: str = "2cpu", lead: float | None = None) -> Measurement:
    """Launches of these steps, whose input takes so many percent. lead: of the host, as a share of the step."""
    one = tuple(
        replace(
            launch(step / 1e3),
            phase_s={"input": percent / 1e5 * step, "forward": 0.0},
            host_lead_s=None if lead is None else lead * step / 1e3,
        )
        for step in ms
    )
    return measured(config, 1, world=world, launches=one)


def limit_of(*group: Measurement, profile: Profile | None = None) -> StepLimit:
    """The limit of the first one."""
    (found,) = step_limits(group, {} if profile is None else {group[0].cell: profile}).values()
    return found


def profiled(
    compute: float = 0,
    sent: float = 0,
    copy: float = 0,
    idle: float = 0,
    *,
    ranks: tuple[float, ...] = (),
    **more: object,
) -> Profile:
    """A profiled step, on a GPU unless ``starved_ms`` is None. ranks: the exposed communication of each."""
    parts = StepParts(compute=compute, exposed_communication=sent, exposed_copy=copy, idle=idle)
    of_ranks = [replace(parts, exposed_communication=one) for one in ranks or (sent,)]
    known = {"starved_ms": 0.0, "unfed_ms": 0.0, "communication_ms": sent, "measured_step_ms": parts.total}
    return Profile(breakdown_ms=parts, breakdown_by_rank_ms=of_ranks, **{**known, **more})  # type: ignore[arg-type]


QUIET = 100, 100.1, 99.9


@pytest.mark.parametrize(
    ("group", "by", "most"),
    [
        ([marked("ddp", *QUIET, percent=61), marked("no_comm", *QUIET, percent=61)], INPUT, 0.5),
        ([marked("ddp", *QUIET, percent=95)], INPUT, 100 * 5 / 95),
        ([marked("ddp", *QUIET), marked("no_comm", 50, 50.1, 50)], TRANSFER, 100.5),
        ([marked("ddp", *QUIET, percent=12), marked("no_comm", 50, 50.1, 50)], TRANSFER, 100.5),
        ([marked("ddp", *QUIET), marked("no_comm", 97, 97.1, 97)], COMPUTE, 3.5),
        ([marked("ddp", *QUIET), marked("no_comm", 60, 130, 100)], None, None),
        ([marked("ddp", *QUIET), marked("no_comm", 50)], None, None),
        ([marked("ddp", *QUIET)], None, None),
        ([marked("ddp", *QUIET, world="1cpu")], COMPUTE, None),
        # The config without communication is slower: nothing is known of the gain.
        ([marked("ddp", *QUIET, percent=61), marked("no_comm", 110, 110.1, 110, percent=61)], INPUT, 100 * 39 / 61),
    ],
)
def test_on_the_cpu_the_marks_of_the_launches_tell(
    group: list[Measurement], by: str | None, most: float | None
) -> None:
    found = limit_of(*group)
    assert (found.by, found.known_by, found.why is None) == (by, "marks", by is not None)
    assert found.most_gain_percent == (most if most is None else pytest.approx(most, abs=0.6))


def test_one_launch_or_noise_says_what_it_does_not_decide() -> None:
    assert limit_of(marked("ddp", 100), marked("no_comm", 50)).why == "transfer or compute: one launch does not tell"
    noisy = limit_of(marked("ddp", *QUIET), marked("no_comm", 60, 130, 100))
    assert noisy.why is not None
    assert noisy.why.endswith("these launches decide only differences of over 100 %")


@pytest.mark.parametrize(
    ("without_ms", "sent", "by"), [(60, 40, TRANSFER), (95, 10, COMPUTE), (102, 40, None), (60, 10, None)]
)
def test_where_one_launch_decides_nothing_a_profile_on_the_cpu_that_agrees_tells(
    without_ms: float, sent: float, by: str | None
) -> None:
    profile = profiled(compute=90 - sent, sent=sent, idle=10, starved_ms=None, unfed_ms=None)
    one = limit_of(marked("ddp", 100), marked("no_comm", without_ms), profile=profile)
    assert (one.by, one.transfer_percent, one.most_gain_percent) == (by, sent if by else None, None)
    longer = replace(profile, measured_step_ms=60.0)
    assert limit_of(marked("ddp", 100), marked("no_comm", without_ms), profile=longer).by is None


def test_what_a_rank_receives_before_its_forward_pass_is_no_input() -> None:
    """As in a pipeline: 34 % of the step come before the forward pass, of which the profile shows 30 % as sent."""
    before = {"get batch": StepParts(compute=1, exposed_communication=30, exposed_copy=0, idle=3)}
    profile = profiled(compute=60, sent=35, idle=5, starved_ms=None, unfed_ms=None, ranges_ms=before)
    script = without_ddp(marked("as_written", *QUIET, percent=34))
    found = limit_of(script, profile=profile)
    assert found.by == TRANSFER
    assert found.input_percent == pytest.approx(4)
    of_loader = replace(profile, ranges_ms={"get batch": replace(before["get batch"], exposed_communication=0)})
    assert limit_of(script, profile=of_loader).input_percent == pytest.approx(34)


@pytest.mark.parametrize(("without_ms", "never"), [(100, TRANSFER), (95, TRANSFER), (50, COMPUTE)])
def test_launches_that_spread_by_5_percent_never_name_the_wrong_one(without_ms: float, never: str) -> None:
    random, found, most = Random(1), Counter[str | None](), []
    for _ in range(200):
        both = [[one * random.lognormvariate(0, 0.05) for _ in range(3)] for one in (100, without_ms)]
        limit = limit_of(marked("ddp", *both[0]), marked("no_comm", *both[1]))
        found[limit.by] += 1
        most += [limit.most_gain_percent] if limit.most_gain_percent is not None else []
    assert found[never] == 0
    assert sum(one >= 100 * (100 / without_ms - 1) for one in most) > 0.95 * len(most)


def test_where_the_launches_leave_transfer_open_the_least_compute_is_known() -> None:
    found = limit_of(marked("ddp", *QUIET), marked("no_comm", 98, 103, 100))
    assert (found.by, found.transfer_percent) == (COMPUTE, None)
    assert found.compute_percent == pytest.approx(93, abs=1)


def test_a_decided_gain_over_the_upper_limit_takes_the_limit_back() -> None:
    group = [marked("ddp", *QUIET), marked("no_comm", 97, 97.1, 97), marked("bf16", 90, 90, 90)]
    assert limit_of(*group).most_gain_percent is None


ON_GPUS = marked("ddp", *QUIET, world="8gpu", lead=0.5)
LATE: dict[str, Any] = {"late_ranks": {"1": 9}, "matched_collectives": 10}


@pytest.mark.parametrize(
    ("profile", "by", "percent", "most"),
    [
        (profiled(compute=30, idle=70, starved_ms=65.0, unfed_ms=61.0), INPUT, 61, 0),
        (profiled(compute=85, copy=15, ranges_ms={"get batch": StepParts(
            compute=0, exposed_communication=0, exposed_copy=12, idle=0)}), INPUT, 12, 100 * 15 / 85),
        (profiled(compute=60, idle=40, starved_ms=34.0), "host", 34, 0),
        # The profiler made the host later: a measured step has less idle time.
        (profiled(compute=60, idle=60, starved_ms=54.0, measured_step_ms=100.0), "host", 34, 0),
        (profiled(compute=54, sent=46), TRANSFER, 46, 100 * 46 / 54),
        (profiled(compute=54, sent=46, ranks=(86, 6), waiting_ms=40.0, **LATE), "late_rank", 40, 100 * 46 / 54),
        # By turns ranks are late because their hosts are.
        (profiled(compute=42, idle=12, sent=46, starved_ms=12.0, ranks=(86, 6), waiting_ms=40.0,
                  late_ranks={"1": 6, "0": 4}, matched_collectives=10), "host", 12, 100 * 46 / 54),
        # Hardly idle while a profiler makes the step longer: between kernels it takes time of the device.
        (profiled(compute=104, idle=6, starved_ms=4.0, measured_step_ms=100.0), COMPUTE, 100, 0),
        # The rank that joins last has communication as well: not all of it is waiting.
        (profiled(compute=54, sent=46, ranks=(46, 45), waiting_ms=40.0), TRANSFER, 45, 100 * 46 / 54),
        (profiled(compute=97, sent=3, communication_ms=9.0), COMPUTE, 97, 100 * 9 / 91),
        (profiled(compute=97, sent=3, communication_ms=40.0), COMPUTE, 97, None),
    ],
)  # fmt: skip
def test_on_gpus_a_profile_tells(profile: Profile, by: str, percent: float, most: float | None) -> None:
    found = limit_of(ON_GPUS, profile=profile)
    assert (found.by, found.known_by) == (by, "profile")
    assert getattr(found, f"{by}_percent") == pytest.approx(percent)
    assert found.most_gain_percent == (None if most is None else pytest.approx(most))
    assert found.late_rank == (1 if by == "late_rank" else None)


@pytest.mark.parametrize(
    ("idle", "unfed", "by"), [((0, 80), 0, "host"), ((0, 80), 35, "input"), ((5, 5), 0, "compute")]
)
def test_what_makes_a_rank_late_is_seen_on_its_own_device(idle: tuple[float, float], unfed: float, by: str) -> None:
    """The others wait for it for 80 of 100 ms."""
    profile = profiled(compute=14, sent=46, idle=40, starved_ms=40, unfed_ms=unfed, waiting_ms=40, **LATE)
    assert profile.breakdown_ms is not None
    late, waiting = ((6, idle[1]), (86, idle[0]))
    ranks = [replace(profile.breakdown_ms, exposed_communication=sent, idle=ms) for sent, ms in (waiting, late)]
    assert limit_of(ON_GPUS, profile=replace(profile, breakdown_by_rank_ms=ranks)).late_by == by


def test_on_gpus_the_lead_of_the_host_tells_without_a_profile_but_not_for_a_script() -> None:
    late = marked("ddp", *QUIET, world="8gpu", lead=0.02)
    unlike = profiled(compute=90, idle=40, starved_ms=5.0, measured_step_ms=100.0)
    assert [limit_of(late).by, limit_of(late, profile=unlike).by] == ["host", "host"]
    assert limit_of(replace(late, workload=replace(late.workload, training=SCRIPT))).by is None
    assert limit_of(ON_GPUS, marked("no_comm", 50, 50, 50, world="8gpu", lead=0.5)).by == TRANSFER


def test_transfer_is_not_told_from_late_hosts_where_no_config_of_ddp_applies() -> None:
    """As of HSDP, whose ranks wait for each other in groups of two."""
    profile = profiled(compute=45, sent=55)
    late, early = (marked("as_written", *QUIET, world="8gpu", lead=lead) for lead in (0.02, 0.5))
    found = limit_of(without_ddp(late), profile=profile)
    assert (found.by, found.transfer_percent) == (None, 55)
    assert found.why is not None
    assert found.why.startswith("the host or transfer: ")
    assert limit_of(without_ddp(early), profile=profile).by == TRANSFER
    assert limit_of(late, profile=profile).by == TRANSFER


def without_ddp(m: Measurement) -> Measurement:
    launches = tuple(replace(one, bucket_bytes=[]) for one in m.launches)
    return replace(m, workload=replace(m.workload, training=SCRIPT), launches=launches)


SCRIPT = LaunchLine(path=ROOT / "train.py", arguments=(), shown="train.py", name="train")


def test_a_config_may_be_faster_than_one_without_communication_where_both_wait_for_their_input() -> None:
    faster = [marked("no_comm", 113, 113.1, 113, percent=61), marked("ddp", *QUIET, percent=61)]
    assert disturbance_of(faster) is None
    assert disturbance_of([marked("no_comm", 113, 113.1, 113), marked("ddp", *QUIET)]) is not None


def shipped() -> Mapping[Cell, StepLimit]:
    """The limit of each lossless config without a hook, by its profile in the newest record of two H200s."""
    record = checked(read(ROOT / "baselines/2x-nvidia-h200-nv18/0006_h200_w6.json"))
    found = {}
    for test in record.benchmarks:
        info = test.extra_info
        if info.hook == "none" and info.breakdown_ms is not None and info.steps_per_s is not None:
            one = marked("ddp", 1e3 / info.steps_per_s, world=info.world or "", lead=0.3)
            found[info.workload, info.world or "", info.config or "", ""] = limit_of(one, profile=info)
    return found


def test_each_profile_of_two_h200s_is_limited_by_compute_and_its_upper_limit_holds() -> None:
    limits = shipped()
    assert {limit.by for limit in limits.values()} == {COMPUTE}
    # From DDP's defaults to 10 MB buckets: 2.1 %, to no communication: 3.3 %.
    most = limits["vit_l_32", "2gpu", "ddp_default", ""].most_gain_percent
    assert most is not None
    assert 3.3 < most < 10
