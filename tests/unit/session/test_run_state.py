"""``Run.judged``: results of the flow, with later decisions."""

from dataclasses import replace

import pytest

from fixtures.gradients.hook_training import effect
from fixtures.machine.cpu import HostLoad
from fixtures.machine.nccl_log import Fingerprint
from fixtures.matrix.hooks import find_hook
from fixtures.session.run_state import Judged, Run
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, launch, measured

TEST = "perf/test_bf16"
OPEN = replace(judge([0.1], []), word="unclear")


@pytest.fixture
def run() -> Run:
    run = Run(settings=SETTINGS)
    run.measured[TEST] = Judged(measurement=measured("bf16", 1), verdict=OPEN)
    return run


def test_an_open_test_has_the_verdict_decided_at_the_end(run: Run) -> None:
    run.decided[TEST] = replace(OPEN, word="slower")
    assert run.judged[TEST].verdict.word == run.verdicts[TEST].word == "slower"
    assert run.measured[TEST].verdict.word == "unclear"
    with pytest.raises(TypeError, match="does not support item assignment"):
        run.judged[TEST] = run.measured[TEST]  # type: ignore[index]


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
    fifth_more = [[2.0, 1.25], [2.0, 1.2], [2.0, 1.15]]
    run.recorded_effects = [effect(find_hook(hook).name, "2cpu", fifth_more, [[2.0, 1.0]] * 3)]
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
    run: Run, world: str, loads: list[HostLoad | None], found: HostLoad | None
) -> None:
    run.keys[TEST], run.host_loads["key"] = "key", loads
    assert run.other_work(TEST, measured("ddp", 1, world=world)) == found


@pytest.mark.parametrize(
    ("of_the_run", "explained", "found"),
    [
        (QUIET, {}, None),
        (QUIET, {TEST: 20.0}, BUSY),
        (None, {TEST: 20.0}, BUSY),
        (HostLoad(others=1.5, cores=2), {TEST: 20.0}, HostLoad(others=1.5, cores=2)),
    ],
)
def test_others_used_the_host_much_in_the_run_or_in_a_test_that_this_explains(
    run: Run, of_the_run: HostLoad | None, explained: dict[str, float], found: HostLoad | None
) -> None:
    run.measured[TEST] = Judged(measurement=measured("bf16", 1, world="2cpu"), verdict=OPEN)
    run.keys[TEST], run.host_loads["key"] = "key", [BUSY]
    run.host_load, run.explained_percent = of_the_run, explained
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


def test_other_work_can_slow_gpus_whose_data_goes_through_host_memory(run: Run) -> None:
    run.keys[TEST], run.host_loads["key"] = "key", [BUSY]
    through_host = replace(launch(1), fingerprint=Fingerprint(transports={"SHM/direct": 2}))
    assert run.other_work(TEST, measured("ddp", 1, launches=(through_host,))) == BUSY
