"""The line of the user's code in which steps spend their time."""

import time
from contextlib import ExitStack

import pytest
import torch

from fixtures.ranks.host_time import HostTimeline, Place, Stack, _watch_calls, lines_of
from fixtures.stats.step_account import AHEAD


def at(line: int) -> Place:
    return at.__code__, line


def stack(*lines: int, phase: str = "forward") -> Stack:
    """Of the user's lines; the innermost first."""
    return phase, tuple(at(line) for line in lines), at(99), True


def named(weights: dict[Stack, float]) -> list[int]:
    found = lines_of({one: [s] * 3 for one, s in weights.items()})
    return [int(found[one].partition(" ")[0].rpartition(":")[2]) for one in weights]


def test_what_lies_in_many_lines_has_the_line_that_calls_them_and_no_other_does() -> None:
    layer, other_layer, train, in_evaluate, evaluate = 90, 91, 20, 30, 25
    usual = {stack(layer, train): 0.4, stack(other_layer, train): 0.6}
    evaluation = {stack(layer, in_evaluate, evaluate): 2.0, stack(other_layer, in_evaluate, evaluate): 3.0}
    assert named(usual | evaluation) == [train, train, in_evaluate, in_evaluate]


def test_a_line_that_calls_several_phases_is_not_named() -> None:
    step, model, loss, log, update_ema, library = 10, 20, 21, 22, 23, 99
    one = {stack(model, step): 0.5, stack(loss, step, phase="backward"): 0.5}
    own = {stack(log, step, phase="own"): 0.4, stack(update_ema, step, phase="own"): 0.6}
    assert named(one | own | {stack(5, phase="loader"): 0.1}) == [model, loss, log, update_ema, 5]
    assert named({stack(step): 0.5, stack(step, phase="backward"): 0.5}) == [library, library]


def test_a_value_read_from_a_gpu_waits_for_it_and_one_on_the_cpu_does_not() -> None:
    """A meta tensor stands for one on a GPU: it has no value, so reading it raises."""
    timeline = HostTimeline()
    timeline.begin()
    with ExitStack() as undo:
        _watch_calls(timeline, undo)
        read = torch.ones(1).item() + float(torch.ones(1))
        with pytest.raises(RuntimeError, match="meta"):
            torch.ones(1, device="meta").item()
    timeline.end_step()
    (step,) = timeline.steps
    assert (read, {phase for phase, s in step.items() if s}) == (2.0, {"own", AHEAD})
    assert "item" not in vars(torch.Tensor)


def test_a_call_that_synchronizes_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function stands for torch's, which needs a GPU."""
    monkeypatch.setattr(torch.cuda, "synchronize", original := lambda: time.sleep(0.02))
    timeline = HostTimeline()
    timeline.begin()
    with ExitStack() as undo:
        _watch_calls(timeline, undo)
        torch.cuda.synchronize()
    timeline.end_step()
    (step,) = timeline.steps
    assert step[AHEAD] >= 0.02
    assert torch.cuda.synchronize is original
