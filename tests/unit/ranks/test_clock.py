"""The clock of steps: phases that occur once or several times in a step."""

import pytest
import torch

from fixtures.ranks.window import AllRanks, StepClock, Window, clock_of


class Marks:
    """A clock whose marks are a second apart, the next two seconds, and so on."""

    def __init__(self) -> None:
        self.taken = 0

    def mark(self) -> None:
        self.taken += 1

    def intervals_s(self) -> list[float]:
        return [float(number) for number in range(1, self.taken)]


@pytest.mark.parametrize(
    ("steps", "steps_s"),
    [
        (["forward backward"] * 2, [{"forward": 1, "backward": 2}, {"forward": 3, "backward": 4}]),
        # One that occurs twice has the sum.
        (["forward backward forward backward optimizer"], [{"forward": 1 + 3, "backward": 2 + 4, "optimizer": 5}]),
    ],
)
def test_each_phase_has_the_time_up_to_its_mark_in_each_step(steps: list[str], steps_s: list[dict[str, int]]) -> None:
    clock = StepClock(Marks())
    clock.begin()
    for phases in steps:
        for phase in phases.split():
            clock.mark(phase)
        clock.end_step()
    clock.mark("forward")  # of a step that has not ended
    assert (clock.ended, clock.steps_s()) == (len(steps), steps_s)


def test_a_phase_that_a_step_lacks_took_no_time_there() -> None:
    all_ranks = AllRanks(device=torch.device("cpu"), wait=lambda: None, slowest=lambda values: values)
    window = Window(all_ranks=all_ranks, marks=2, precision_percent=0)
    for wanted in window.measure([1, 2], ahead=0):
        wanted.clock.begin()
        for _ in range(wanted.number):
            wanted.clock.mark("forward")
            if window.measured:
                wanted.clock.mark("optimizer")
            wanted.clock.end_step()
    assert list(map(len, window.phases_s.values())) == [3, 3]
    assert [time > 0 for time in window.phases_s["optimizer"]] == [False, True, True]


def test_marks_are_on_the_device_that_works_and_not_on_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that names its device and leaves GPU 0 the current one."""
    recorded = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self, stream: str = "of GPU 0") -> None:
            recorded.append(stream)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"of GPU {device.index}")
    clock = StepClock(clock_of(torch.device("cuda", 1), 1))
    clock.begin()
    clock.mark("forward")  # one more than announced
    assert recorded == ["of GPU 1"] * 2
