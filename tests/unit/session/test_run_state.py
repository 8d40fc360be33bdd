"""Cases of a run: their verdicts, their gradients, and the load of the host in them."""

from dataclasses import replace
from typing import Any

import pytest

from fixtures.machine.cpu import HostLoad
from fixtures.machine.gpu_links import Topology
from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.hooks import find_hook
from fixtures.records.baselines import Priors, Recorded
from fixtures.records.differences import Snapshot
from fixtures.records.schema import EnvironmentRecord, TestRecord
from fixtures.session.case import Case
from fixtures.session.run_state import Run
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, effect_of, launch, measured

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
    through_host = replace(launch(1), fingerprint=Fingerprint(transports={"SHM/direct": 2}))
    case.shared.launches = (through_host,)
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
    medians_s = recorded.launch_medians_s
    assert judge(now.launch_medians_s, medians_s, prior=run.prior(now, recorded)).word == word
    assert (run.prior_of_late_host(now, recorded) is not None) == (word == "slower")
