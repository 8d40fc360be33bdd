"""The clock of steps: phases that occur once or several times in a step."""

import pytest

from fixtures.ranks.clock import StepClock, Untimed


class Marks:
    """A clock whose marks are a second apart, the next two seconds, and so on."""

    def __init__(self) -> None:
        self.taken = 0

    def mark(self) -> None:
        self.taken += 1

    def intervals_s(self) -> list[float]:
        return [float(number) for number in range(1, self.taken)]


def test_each_phase_has_the_time_up_to_its_mark_in_each_step() -> None:
    clock = StepClock(Marks())
    for _ in range(2):
        clock.mark("forward")
        clock.mark("backward")
        clock.end_step()
    assert clock.phases_s() == {"forward": [1, 3], "backward": [2, 4]}


def test_a_phase_that_occurs_twice_in_a_step_has_the_sum() -> None:
    clock = StepClock(Marks())
    for phase in ("forward", "backward", "forward", "backward", "optimizer"):
        clock.mark(phase)
    clock.end_step()
    assert clock.phases_s() == {"forward": [1 + 3], "backward": [2 + 4], "optimizer": [5]}


def test_a_phase_that_a_step_lacks_took_no_time_there() -> None:
    clock = StepClock(Marks())
    for phases in (("forward",), ("forward", "optimizer"), ("forward",)):
        for phase in phases:
            clock.mark(phase)
        clock.end_step()
    times = clock.phases_s()
    assert times["forward"] == [1, 2, 4]
    assert times["optimizer"] == pytest.approx([0, 3, 0][: len(times["optimizer"])])


def test_steps_without_a_clock_have_no_times() -> None:
    clock = Untimed()
    clock.mark("forward")
    clock.end_step()
