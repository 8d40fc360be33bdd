"""``Run.judged``: results of the flow, with what is decided later."""

from dataclasses import replace

import pytest

from fixtures.matrix.hooks import find_hook
from fixtures.records.training_effect import LossEffect
from fixtures.session.run_state import Judged, Run
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, measured

TEST = "perf/test_bf16"
HELD = replace(judge([0.1], []), word="held")


@pytest.fixture
def run() -> Run:
    run = Run(settings=SETTINGS)
    run.measured[TEST] = Judged(measurement=measured("bf16", 1), verdict=HELD)
    return run


def test_a_held_test_has_the_verdict_decided_at_the_end(run: Run) -> None:
    assert run.judged[TEST].verdict.word == "held"
    run.decided[TEST] = replace(HELD, word="unclear")
    assert run.judged[TEST].verdict.word == run.verdicts[TEST].word == "unclear"
    assert run.measured[TEST].verdict.word == "held"


def test_a_config_is_wrong_once_a_gradient_test_of_its_hook_failed(run: Run) -> None:
    run.wrong_hooks.add("powersgd_rank1")
    assert run.judged[TEST].measurement.fidelity == "lossy"
    run.wrong_hooks.add("bf16")
    assert run.judged[TEST].measurement.fidelity == "wrong"


def test_the_merged_results_cannot_be_written_to(run: Run) -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        run.judged[TEST] = run.measured[TEST]  # type: ignore[index]


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
    run.recorded_effects = {(find_hook(hook).name, "fp32"): LossEffect(excess_percent=20, margin_percent=5)}
    m = measured("bf16", 1)
    assert run.is_harmful(replace(m, config=replace(m.config, name=hook, hook=hook))) is harmful
