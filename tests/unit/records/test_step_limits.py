"""The account and the limit of a step, from launches and profiles made by hand."""

from dataclasses import replace

import pytest

from fixtures.launch.script import LaunchLine
from fixtures.records.measurement import Measurement
from fixtures.records.step_limits import step_limits
from fixtures.stats.step_account import DeviceTime, HostTime, host_time
from fixtures.stats.step_limit import StepLimit
from fixtures.trace.profile import Profile, StepParts
from tests.builders import launch, measured
from tests.command_line import ROOT

QUIET = 100, 100.1, 99.9
SCRIPT = LaunchLine(path=ROOT / "train.py", arguments=(), shown="train.py", name="train")


def watched(config: str, *ms: float, world: str = "2cpu", loader: float = 1, lead: float | None = None) -> Measurement:
    """Launches of these steps, in the first of which the host was watched: so many ms in the loader, the others in the
    backward pass. lead: of the host at the end, in ms."""
    first, *others = (launch(step / 1e3) for step in ms)
    one = measured(config, 1, world=world)
    phases_s = {"loader": loader / 1e3, "backward": (ms[0] - loader) / 1e3}
    times = tuple(host_time([phases_s] * 16, {}, lead_ms=lead) for _ in range(one.world.size))
    return measured(config, 1, world=world, launches=(replace(first, host_times=times), *others))


def limit_of(*group: Measurement, profile: Profile | None = None) -> StepLimit:
    """The limit of the first one."""
    ((_, found),) = step_limits(group, {} if profile is None else {group[0].cell: profile}).values()
    return found


def profiled(compute: float, sent: float = 0, copy: float = 0, *, ranks: int = 8, hidden: float = 0) -> Profile:
    parts = StepParts(compute=compute, exposed_communication=sent, exposed_copy=copy, idle=0)
    device = DeviceTime(step=parts.total, compute=compute, transfer=sent, copy=copy, waiting={})
    return Profile(breakdown_ms=parts, devices_ms=[device] * ranks, communication_ms=sent + hidden)


@pytest.mark.parametrize(
    ("group", "by", "most"),
    [
        ([watched("ddp", *QUIET, loader=61), watched("no_comm", *QUIET)], "loader", 0.5),
        ([watched("ddp", *QUIET, loader=95)], "loader", 100 * 5 / 95),
        ([watched("ddp", *QUIET), watched("no_comm", 50, 50.1, 50)], "transfer", 100.5),
        ([watched("ddp", *QUIET), watched("no_comm", 97, 97.1, 97)], "compute", 3.5),
        ([watched("ddp", *QUIET), watched("no_comm", 60, 130, 100)], None, None),
        ([watched("ddp", *QUIET), watched("no_comm", 50)], None, None),
        ([watched("ddp", *QUIET)], None, None),
        ([watched("ddp", *QUIET, world="1cpu")], "compute", None),
        # The config without communication is slower: nothing is known of the gain.
        ([watched("ddp", *QUIET, loader=61), watched("no_comm", 110, 110.1, 110)], "loader", 100 * 39 / 61),
    ],
)
def test_on_the_cpu_the_host_and_no_comm_tell(group: list[Measurement], by: str | None, most: float | None) -> None:
    found = limit_of(*group)
    assert (found.by, found.why is None) == (by, by is not None)
    assert found.most_gain_percent == (most if most is None else pytest.approx(most, abs=0.6))


def test_a_training_that_ended_before_its_host_was_watched_is_not_known() -> None:
    def without(m: Measurement) -> Measurement:
        return replace(m, launches=tuple(replace(one, host_times=()) for one in m.launches))

    assert limit_of(without(watched("ddp", *QUIET))).why == "the host was not watched"
    assert step_limits([without(watched("bf16", *QUIET))], {}) == {}


def test_the_only_config_of_a_script_on_one_device_has_the_limit() -> None:
    assert [m for _, _, _, m in step_limits([watched("single", *QUIET)], {})] == ["single"]


@pytest.mark.parametrize(
    ("profile", "by", "percent", "most"),
    [
        (profiled(54, 46), "transfer", 46, 100 * 46 / 54),
        (profiled(85, copy=15), "copy", 15, 100 * 15 / 85),
        (profiled(97, 3, hidden=6), "compute", 97, 100 * 9 / 91),
        (profiled(97, 3, hidden=37), "compute", 97, None),
    ],
)
def test_on_gpus_a_profile_tells(profile: Profile, by: str, percent: float, most: float | None) -> None:
    found = limit_of(watched("ddp", *QUIET, world="8gpu", lead=50), profile=profile)
    assert found.by == by
    assert found.percent == pytest.approx(percent, rel=1e-3)
    assert found.most_gain_percent == (None if most is None else pytest.approx(most, rel=1e-3))


def test_on_gpus_the_lead_of_the_host_tells_without_a_profile_but_not_for_a_script() -> None:
    late = watched("ddp", *QUIET, world="8gpu", lead=2)
    assert limit_of(late).by == "host"
    of_script = limit_of(replace(late, workload=replace(late.workload, training=SCRIPT)))
    assert of_script.by is None
    assert of_script.why == "the host or compute: no step was profiled, and only a profile tells"
    ahead, without = (
        watched(name, *ms, world="8gpu", lead=50) for name, ms in (("ddp", QUIET), ("no_comm", (50,) * 3))
    )
    assert limit_of(ahead, without).by == "transfer"


def test_a_decided_gain_over_the_upper_limit_takes_the_limit_back() -> None:
    group = [watched("ddp", *QUIET), watched("no_comm", 97, 97.1, 97), watched("bf16", 90, 90, 90)]
    assert limit_of(*group).most_gain_percent is None


def test_a_host_time_is_of_all_ranks_or_of_none() -> None:
    one: HostTime = watched("ddp", 100).host_times[0]
    assert measured("ddp", 1, world="2cpu", launches=(replace(launch(0.1), host_times=(one,)),)).host_times == ()
