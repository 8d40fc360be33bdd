"""The line of the user's code in which steps spend their time."""

import time
from contextlib import ExitStack

import pytest
import torch

from fixtures.ranks.host_time import HostTimeline, Place, Stack, _watch_calls, lines_of
from fixtures.stats.step_account import AHEAD


def at(line: int) -> Place:
    return at.__code__, line


def stack(*lines: int) -> Stack:
    """A forward pass; the innermost line first."""
    return "forward", tuple(at(line) for line in lines), None, True


def test_longer_steps_are_named_by_the_outermost_line_that_the_others_lack() -> None:
    model, train, evaluate, calls_evaluate = 90, 20, 30, 25
    usual = {stack(model, train): [0.1] * 9}
    longer = {stack(model, train): [0.1] * 3, stack(model, evaluate, calls_evaluate): [0.1] * 9}
    found = {line.partition(" ")[0]: len(times) for (_, line), times in lines_of(longer, usual).items()}
    assert found == {"test_host_lines.py:90": 3, "test_host_lines.py:25": 9}


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
