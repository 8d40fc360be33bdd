"""The flow of a script's launch, between whose resumptions the script trains."""

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

from tests.script.conftest import PLAIN, STEP, Run

# All stages of a launch.
ALL = {"check_gradients": True, "profile": 2, "watch_s": 0.1, "turns_s": 0.1}


def test_each_resumption_leaves_the_state_of_the_training_as_it_was(run: Run, script: Callable[..., Path]) -> None:
    state = """
def state():
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.are_deterministic_algorithms_enabled()
    return *modes, torch.is_autocast_enabled("cpu"), torch.get_num_threads(), torch.get_rng_state().sum().item()
"""
    compared = STEP.replace("o.step()", "before = state(); o.step(); assert state() == before, (before, state())")
    results = run(script(PLAIN + state, compared, steps=300), **ALL)
    assert all(result.host_time and result.breakdown and result.block_s for result in results)
    assert not any("raised" in remark for result in results for remark in result.remarks)


def test_an_error_of_the_flow_is_the_answer_of_the_rank_although_the_script_catches_it(
    run: Run, script: Callable[..., Path]
) -> None:
    breaks = f"{PLAIN}\nfrom fixtures.ranks.script import flow; flow.Profiling = None"
    catches = f"try:\n{indent(STEP, '    ')}\nexcept Exception:\n    pass"
    results = run(script(breaks, catches), profile=2)
    assert all(any("raised after its measured steps" in one for one in result.remarks) for result in results)
