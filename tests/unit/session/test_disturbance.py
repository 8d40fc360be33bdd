"""A disturbed run: canaries that jumped, launches further apart than in the records, and no best config."""

from dataclasses import replace

import pytest

from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_state import LaunchState, OtherProcess, Reading
from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import Recorded
from fixtures.records.config_comparison import disturbance_of
from fixtures.records.measurement import Measurement
from fixtures.report.card import card_of
from fixtures.session.canaries import CanaryTimes
from fixtures.session.run_record import disturbances_of, record_so_far
from fixtures.session.run_state import Run
from fixtures.stats.verdict import UNJUDGED, judge
from tests.builders import SETTINGS, case_of, launch, measured, report_of

CONFIGS = ("ddp", "ddp_default", "static_graph", "bucket_view", "static_graph_bucket_view", "bf16")


def run_of(spread: float, recorded: float) -> Run:
    """Six tests, whose launches lie apart by this factor now and in two records; ``ddp`` is the slowest."""
    run = Run(settings=SETTINGS)
    history = run.history[SETTINGS.instance] = {}
    for number, name in enumerate(CONFIGS):
        step_s = 0.1 - 0.01 * number
        m = measured(name, 1, launches=(launch(step_s), launch(step_s * spread)))
        records = [[step_s, step_s * recorded]] * 2
        run.cases[name] = case_of(measurement=m, verdict=judge(m.launch_medians_s, records))
        history[name] = Recorded(workload="vit", launch_medians_s=records, files=["0001_a.json", "0002_a.json"])
    return run


def with_canary(run: Run, before_s: list[float], after_s: list[float], name: str = "copy") -> Run:
    run.canaries.times["native"] = CanaryTimes(world="2gpu", before_s={name: before_s}, after_s={name: after_s})
    return run


def test_steps_that_the_host_limits_are_no_evidence() -> None:
    """Two H100s, eager autocast: faster than without communication, and launches 11 to 19 % apart."""

    def of(config: str, *step_s: float, lead_s: float) -> Measurement:
        launches = tuple(replace(launch(one), host_lead_s=lead_s) for one in step_s)
        return measured(config, 1, world="2gpu", launches=launches)

    limited = [of("ddp", 0.0666, 0.0739, lead_s=0.0002), of("no_comm", 0.0760, 0.0899, lead_s=0.0001)]
    assert disturbance_of(limited) is None
    ahead = [replace(m, launches=tuple(replace(one, host_lead_s=0.05) for one in m.launches)) for m in limited]
    found = disturbance_of(ahead)
    assert found is not None
    assert found.by == ahead[0]


def test_a_quiet_run_is_not_disturbed_and_has_a_best_config() -> None:
    run = with_canary(run_of(1.001, 1.001), [1.0, 1.01, 1.02], [1.1, 1.11, 1.12])
    assert disturbances_of(run) == []
    assert card_of(report_of(run)).best[0].text.startswith("static_graph_bucket_view, 16.66 steps/s")


@pytest.mark.parametrize(("sm_percent", "evidence"), [(60, True), (1, False), (None, False)])
def test_a_process_that_uses_a_gpu_all_the_time_is_named(sm_percent: int | None, evidence: bool) -> None:
    after = Reading(others=(OtherProcess(pid=522, sm_percent=sm_percent),))
    state = LaunchState(before=(Reading(),), after=(after,), lasted_s=1.0)
    run = run_of(1.001, 1.001)
    shared = run.cases["bf16"].shared
    shared.launches = tuple(replace(one, gpu_state=state) for one in shared.launches)
    expected = "another process (pid 522) used up to 60 % of a GPU's SMs in 1 of 6 tests"
    assert disturbances_of(run) == ([expected] if evidence else [])


def test_launches_much_further_apart_than_in_the_records_are_named_and_no_config_is_best() -> None:
    run = run_of(1.1, 1.005)
    (line,) = disturbances_of(run)
    assert line == "launches differ by 6.7 % (0.4 % in the records), median of 6 tests"
    assert card_of(report_of(run)).best[0].text.startswith("none, the run was disturbed; ")


@pytest.mark.parametrize(("spread", "recorded", "tests"), [(1.1, 1.08, 6), (1.02, 1.0001, 6), (1.1, 1.005, 4)])
def test_launches_as_far_apart_as_in_the_records_or_close_anyway_or_few_are_no_evidence(
    spread: float, recorded: float, tests: int
) -> None:
    run = run_of(spread, recorded)
    for name in CONFIGS[tests:]:
        del run.history[SETTINGS.instance][name]
    assert disturbances_of(run) == []


@pytest.mark.parametrize(
    ("name", "before_s", "after_s", "change"),
    [
        ("copy", [1.0, 1.005, 1.01], [1.5, 1.51, 1.52], "50 % slower"),
        ("copy", [1.0, 1.005, 1.01], [0.7, 0.71, 0.7], "30 % faster"),
        (HOST, [4.95e-3, 4.80e-3], [8.0e-3, 8.1e-3], "65 % slower"),
        ("copy", [1.0, 2.0, 1.5], [2.2, 3.0, 1.4], None),  # its launches differ as much
        ("copy", [1.5e-5, 1.51e-5, 1.52e-5], [1.0e-5, 1.01e-5, 1.02e-5], None),  # very short
        ("copy", [1.0, 1.0, 1.0], [], None),  # of an interrupted run
        (HOST, [4.95e-3, 4.80e-3], [6.29e-3, 6.28e-3], None),  # kernel launches in a quick run on one quiet H200
    ],
)
def test_a_canary_that_jumps_within_the_run_is_named(
    name: str, before_s: list[float], after_s: list[float], change: str | None
) -> None:
    expected = [] if change is None else [f"{name} {change} from the first test to the last"]
    assert disturbances_of(with_canary(run_of(1.001, 1.001), before_s, after_s, name)) == expected


def test_other_work_on_the_host_disturbs_where_a_test_feels_it() -> None:
    run = Run(settings=SETTINGS, host_load=HostLoad(others=1.5, cores=2))
    for world, evidence in (("2cpu", ["other processes used 1.5 of 2 cores"]), ("2gpu", None)):
        run.cases["ddp"] = case_of(measurement=measured("ddp", 8, world=world), verdict=UNJUDGED)
        assert record_so_far(run, None).disturbed == evidence


def test_a_run_that_nothing_watched_does_not_know_whether_it_was_disturbed() -> None:
    run = run_of(1.001, 1.001)
    run.host_load = None
    assert record_so_far(run, None).unwatched
    assert record_so_far(with_canary(run, [1.0], [1.0]), None).unwatched  # one launch does not tell
    assert record_so_far(with_canary(run, [1.0, 1.0], [1.0, 1.0]), None).unwatched is None
