"""Cases of a run, canaries, and what disturbs a run."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_state import LaunchState, OtherProcess, Reading
from fixtures.machine.nccl_log import Fingerprint
from fixtures.machine.topology import Topology
from fixtures.matrix.hooks import find_hook
from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import Priors, Recorded, recorded_canaries
from fixtures.records.config_comparison import disturbance_of
from fixtures.records.differences import Snapshot
from fixtures.records.files import BadRecord, checked_run
from fixtures.records.measurement import Measurement
from fixtures.records.schema import EnvironmentRecord, TestRecord
from fixtures.report.card import card_of
from fixtures.session.canaries import CanaryTimes, canary_changes, of_one_launch
from fixtures.session.case import Case
from fixtures.session.run_record import disturbances_of, record_so_far
from fixtures.session.run_state import Run
from fixtures.stats.verdict import UNJUDGED, judge
from tests.builders import SETTINGS, case_of, effect_of, known, launch, measured, report_of

TEST = "perf/test_bf16"
SLOWER = judge([1.4] * 3, [[1.0] * 3])


@pytest.fixture
def run() -> Run:
    run = Run(settings=SETTINGS)
    run.cases[TEST] = of("bf16", wrong_hooks=run.wrong_hooks)
    return run


# Any: fields of a case.
def of(config: str, *loads: HostLoad | None, world: str = "8gpu", **known: Any) -> Case[Any]:
    """A test with this load of the host by others in its measurements."""
    case = case_of(measurement=measured(config, 1, world=world), verdict=SLOWER, **{"decided": None, **known})
    case.shared.host_loads = list(loads)
    return case


def test_an_open_test_is_unclear_until_it_is_decided_at_the_end(run: Run) -> None:
    assert run.verdicts[TEST].word == "unclear"
    assert run.verdicts[TEST].reason.startswith("interrupted, not measured again: ")
    run.cases[TEST].decided = SLOWER
    assert run.verdicts[TEST].word == "slower"


def test_a_config_is_wrong_once_a_gradient_test_of_its_hook_failed(run: Run) -> None:
    run.wrong_hooks.add("powersgd_rank1")
    assert run.judged[TEST].measurement.fidelity == "lossy"
    run.wrong_hooks.add("bf16")
    assert run.judged[TEST].measurement.fidelity == "wrong"


@pytest.mark.parametrize(
    ("hook", "harmful"),
    [
        ("bf16", True),
        ("powersgd_rank1", True),
        ("tests.hooks_for_tests:learns_nothing", True),
        ("tests.hooks_for_tests:states_its_loss", False),
    ],
)
def test_a_fifth_more_loss_is_harmful_unless_the_users_hook_states_it(run: Run, hook: str, harmful: bool) -> None:
    run.recorded_effects = [effect_of(find_hook(hook).name, excess_percent=20.0)]
    m = measured("bf16", 1)
    assert run.is_harmful(replace(m, config=replace(m.config, name=hook, hook=hook))) is harmful


BUSY, QUIET = HostLoad(others=1.2, cores=2), HostLoad(others=0.05, cores=2)


@pytest.mark.parametrize(
    ("world", "loads", "found"),
    [
        ("2cpu", [HostLoad(others=1.9, cores=2), BUSY], BUSY),
        ("2cpu", [BUSY, QUIET], None),
        ("2cpu", [BUSY, None], None),
        ("2cpu", [], None),
        ("8gpu", [BUSY], None),
    ],
)
def test_other_work_counts_where_every_measurement_of_a_test_felt_it(
    world: str, loads: list[HostLoad | None], found: HostLoad | None
) -> None:
    assert of("ddp", *loads, world=world).other_work == found


@pytest.mark.parametrize(
    ("of_the_run", "explained", "found"),
    [
        (QUIET, None, None),
        (QUIET, 20.0, BUSY),
        (None, 20.0, BUSY),
        (HostLoad(others=1.5, cores=2), 20.0, HostLoad(others=1.5, cores=2)),
    ],
)
def test_others_used_the_host_much_in_the_run_or_in_a_test_that_this_explains(
    run: Run, of_the_run: HostLoad | None, explained: float | None, found: HostLoad | None
) -> None:
    run.cases[TEST] = of("bf16", BUSY, world="2cpu", explained_percent=explained)
    run.host_load = of_the_run
    assert run.busy_host == found


@pytest.mark.parametrize(
    ("before", "during", "found"),
    [
        (BUSY, HostLoad(others=0.3, cores=2), BUSY),  # next to ranks the same work gets less
        (BUSY, HostLoad(others=0.1, cores=2), None),  # it ended, as the report of a run before this one does
        (BUSY, None, None),
        (HostLoad(others=0.4, cores=2), HostLoad(others=0.4, cores=2), None),
    ],
)
def test_work_before_the_first_rank_counts_if_it_goes_on(
    run: Run, before: HostLoad, during: HostLoad | None, found: HostLoad | None
) -> None:
    run.load_before, run.host_load = before, during
    assert run.busy_host == found


def test_other_work_can_slow_gpus_whose_data_goes_through_host_memory() -> None:
    case = of("ddp", BUSY)
    assert case.other_work is None
    case.shared.launches = (replace(launch(1), fingerprint=Fingerprint(transports={"SHM/direct": 2})),)
    assert case.other_work == BUSY


@pytest.mark.parametrize(("leads_ms", "word"), [((30, 0.1), "slower"), ((0.2, 0.1), "ok"), ((None, None), "ok")])
def test_a_step_that_the_host_limits_now_but_not_in_most_records_is_judged_as_sharply(
    leads_ms: tuple[float | None, float | None], word: str
) -> None:
    """Of a step of 100 ms that is 2 % slower. If it did in most, the records vary more."""
    link = Topology(matrix=[["X", "NV18"], ["NV18", "X"]])
    run = Run(settings=SETTINGS, environment=EnvironmentRecord(topology=link))
    run.priors[SETTINGS.instance] = Priors({})
    recorded = Recorded(workload="vit_l_32")
    for number, lead_ms in enumerate(leads_ms):
        info = TestRecord(
            workload="vit_l_32",
            backend="nccl",
            world="2gpu",
            steps_per_s=10.0,
            launch_medians_s=[0.1, 0.1002, 0.0999],
            host_lead_ms=lead_ms,
        )
        recorded.add(f"{number}.json", Snapshot(info=info, environment=run.environment), {})
    launches = tuple(replace(launch(step_s), host_lead_s=1e-4) for step_s in (0.102, 0.1022, 0.1019))
    now = measured("bf16", 10, world="2gpu", launches=launches)
    assert now.without_lead
    assert judge(now.launch_medians_s, recorded.launch_medians_s, prior=run.prior(now, recorded)).word == word
    assert (run.prior_of_late_host(now, recorded) is not None) == (word == "slower")


# A disturbed run: canaries that jumped, launches further apart than in the records, and no best config


CONFIGS = ("ddp", "ddp_default", "static_graph", "bucket_view", "static_graph_bucket_view", "bf16")


def run_with_spread(spread: float, recorded: float) -> Run:
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
    assert known(disturbance_of(ahead)).by == ahead[0]


def test_a_quiet_run_is_not_disturbed_and_has_a_best_config() -> None:
    run = with_canary(run_with_spread(1.001, 1.001), [1.0, 1.01, 1.02], [1.1, 1.11, 1.12])
    assert disturbances_of(run) == []
    assert card_of(report_of(run)).best[0].text.startswith("static_graph_bucket_view, 16.66 steps/s")


@pytest.mark.parametrize(("sm_percent", "evidence"), [(60, True), (1, False), (None, False)])
def test_a_process_that_uses_a_gpu_all_the_time_is_named(sm_percent: int | None, evidence: bool) -> None:
    after = Reading(others=(OtherProcess(pid=522, sm_percent=sm_percent),))
    state = LaunchState(before=(Reading(),), after=(after,), lasted_s=1.0)
    run = run_with_spread(1.001, 1.001)
    shared = run.cases["bf16"].shared
    shared.launches = tuple(replace(one, gpu_state=state) for one in shared.launches)
    expected = "another process (pid 522) used up to 60 % of a GPU's SMs in 1 of 6 tests"
    assert disturbances_of(run) == ([expected] if evidence else [])


def test_launches_much_further_apart_than_in_the_records_are_named_and_no_config_is_best() -> None:
    run = run_with_spread(1.1, 1.005)
    (line,) = disturbances_of(run)
    assert line == "launches differ by 6.7 % (0.4 % in the records), median of 6 tests"
    assert card_of(report_of(run)).best[0].text.startswith("none, the run was disturbed; ")


@pytest.mark.parametrize(("spread", "recorded", "tests"), [(1.1, 1.08, 6), (1.02, 1.0001, 6), (1.1, 1.005, 4)])
def test_launches_as_far_apart_as_in_the_records_or_close_anyway_or_few_are_no_evidence(
    spread: float, recorded: float, tests: int
) -> None:
    run = run_with_spread(spread, recorded)
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
    assert disturbances_of(with_canary(run_with_spread(1.001, 1.001), before_s, after_s, name)) == expected


def test_other_work_on_the_host_disturbs_where_a_test_feels_it() -> None:
    run = Run(settings=SETTINGS, host_load=HostLoad(others=1.5, cores=2))
    for world, evidence in (("2cpu", ["other processes used 1.5 of 2 cores"]), ("2gpu", None)):
        run.cases["ddp"] = case_of(measurement=measured("ddp", 8, world=world), verdict=UNJUDGED)
        assert record_so_far(run, None).disturbed == evidence


def test_a_run_that_nothing_watched_does_not_know_whether_it_was_disturbed() -> None:
    run = run_with_spread(1.001, 1.001)
    run.host_load = None
    assert record_so_far(run, None).unwatched
    assert record_so_far(with_canary(run, [1.0], [1.0]), None).unwatched  # one launch does not tell
    assert record_so_far(with_canary(run, [1.0, 1.0], [1.0, 1.0]), None).unwatched is None


# Canaries: a launch's times from its ranks' times, their record, and their comparison


@pytest.mark.parametrize(("canary", "second", "took"), [("copy", [2.0, 1.0, 3.0], 3.0), (HOST, [2.0, 2.0, 4.0], 2.5)])
def test_a_repetition_lasts_as_long_as_on_its_slowest_rank_and_of_the_host_as_on_average(
    canary: str, second: list[float], took: float
) -> None:
    assert of_one_launch([{canary: [1.0, 5.0, 1.0]}, {canary: second}]) == {canary: took}


def test_a_record_without_canaries_has_none() -> None:
    assert recorded_canaries(checked_run({})) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"native": {"canaries": {}}, "shm": 3},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [1.0]}}}},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [0.0], "after_s": []}}}},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [], "after_s": []}}}},
    ],
)
def test_canaries_that_are_none_make_a_bad_record(wrong: object) -> None:
    with pytest.raises(BadRecord, match=r"`\$\.canaries"):
        checked_run({"canaries": wrong})


def test_only_canaries_of_the_same_world_are_compared() -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [2.0, 2.0]}, after_s={"copy": [2.0, 2.0]})
    of_two, of_one = {"2cpu": {"copy": [1.0] * 4}}, {"1cpu": {"copy": [9.0] * 4}}
    changes = canary_changes(now, [of_one, of_two, {}], min_slowdown_percent=1)
    assert (changes["copy"].word, changes["copy"].history) == ("slower", 1)
    assert canary_changes(now, [of_one], min_slowdown_percent=1) == {}


def test_the_host_is_no_canary_for_all_tests() -> None:
    now = CanaryTimes(world="8gpu", before_s={HOST: [2.0] * 3, "copy": [1.0] * 3})
    before = [{"8gpu": {HOST: [1.0] * 3, "copy": [1.0] * 3}}]
    assert canary_changes(now, before, min_slowdown_percent=1).keys() == {"copy"}


@pytest.mark.parametrize("records", [1, 3, 10])
@pytest.mark.parametrize("look", ["before_s", "after_s"])
def test_a_machine_that_is_slow_in_one_look_only_is_slower_by_as_much_as_then(look: str, records: int) -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [1.0] * 3})
    setattr(now, look, {"copy": [1.5] * 3})
    history = [{"2cpu": {"copy": [1.0 + record / 1000] * 6}} for record in range(records)]
    verdict = canary_changes(now, history, min_slowdown_percent=1)["copy"]
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(50, abs=1)


def test_a_machine_that_became_faster_is_no_slower_one() -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [0.5] * 3})
    verdict = canary_changes(now, [{"2cpu": {"copy": [1.0] * 6}}], min_slowdown_percent=1)["copy"]
    assert verdict.word == "faster"
    assert verdict.change_percent == pytest.approx(-50)
