"""A suspected slowdown is re-measured: how often, when, and that only what stays slower is called so."""

import math
from dataclasses import dataclass, field, replace

import pytest

from fixtures.records.measurement import Launch
from fixtures.records.transfer_measurement import Measured
from fixtures.session.remeasure import MAX_MEASUREMENTS, judge_launches
from fixtures.session.remeasure_budget import PAUSE_S, RemeasureBudget
from fixtures.session.run_state import Run
from fixtures.stats.verdict import Verdict
from tests.builders import SETTINGS, launch, measured

STEP_S = 0.1
LOOK_S = 2.0
# Launches of one run lie 1 % apart.
FACTORS = (0.99, 1.0, 1.01)


@dataclass(kw_only=True)
class Machine:
    """For ``slow_s`` seconds it is slower by ``factor``, then by ``then``. looks: when each began, LOOK_S long."""

    slow_s: float
    factor: float = 1.4
    then: float = 1.0
    now_s: float = 0.0
    looks: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    anew: int = 0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def look(self) -> tuple[Launch, ...]:
        self.looks.append(self.now_s)
        step_s = STEP_S * (self.factor if self.now_s < self.slow_s else self.then)
        self.now_s += LOOK_S
        return tuple(launch(step_s * factor) for factor in FACTORS)

    def look_anew(self) -> tuple[Launch, ...]:
        self.anew += 1
        return self.look()

    def run(self, recheck_s: float) -> Run:
        run = Run(settings=replace(SETTINGS, launches=len(FACTORS), recheck_s=recheck_s), tests=40)
        run.remeasure_budget = RemeasureBudget(left_s=recheck_s, sleep=self.sleep, clock=lambda: self.now_s)
        return run

    def judged(self, run: Run, records: int = 1) -> tuple[Measured, Verdict]:
        first = measured("ddp", 1, launches=self.look())
        history = [[STEP_S * factor for factor in FACTORS]] * records
        return judge_launches(run, "ddp", first, history, self.look, self.look_anew, self.said.append)


def test_what_is_not_slower_is_looked_at_once() -> None:
    machine = Machine(slow_s=0)
    found, verdict = machine.judged(machine.run(60))
    assert (verdict.word, found.remeasured_medians_s, machine.looks, machine.said) == ("unclear", (), [0], [])
    assert found.to_record().remeasured_launch_medians_s is None


def test_a_slowdown_is_looked_at_four_times_and_stays_one() -> None:
    machine = Machine(slow_s=math.inf)
    run = machine.run(60)
    found, verdict = machine.judged(run)
    assert (verdict.word, len(found.launches)) == ("slower", len(FACTORS))
    _, _, last = found.to_record().remeasured_launch_medians_s or []
    assert last == pytest.approx([1.4 * STEP_S * factor for factor in FACTORS])
    assert machine.looks == [0, LOOK_S, 2 * LOOK_S + PAUSE_S, 3 * LOOK_S + 2 * PAUSE_S]
    assert verdict.change_percent == pytest.approx(40)
    assert run.remeasure_budget.left_s == 60 - 2 * (PAUSE_S + LOOK_S)
    assert machine.said == [
        "seems slower by 40.0 %: launched again in 10 s, in new processes (--recheck: 60 s left)",
        "seems slower by 40.0 %: launched again in 10 s, in new processes (--recheck: 48 s left)",
    ]
    assert machine.anew == 2


@pytest.mark.parametrize(("recheck_s", "confirmed"), [(60, True), (0, False)])
def test_a_small_slowdown_that_new_processes_did_not_confirm_is_reported_as_unconfirmed(
    recheck_s: int, confirmed: bool
) -> None:
    """Against twenty records that agree, 2.5 % is more than chance."""
    machine = Machine(slow_s=math.inf, factor=1.025)
    run = machine.run(recheck_s)
    run.tests = 1
    _, verdict = machine.judged(run, records=20)
    assert verdict.word == "slower", verdict.reason
    assert verdict.reason.endswith("; not confirmed in new processes, --recheck was too short") == (not confirmed)


@pytest.mark.parametrize("records", [1, 20])
@pytest.mark.parametrize(("slow_s", "looks"), [(1, 2), (5, 3), (13, 3), (20, 4)])
def test_a_burst_is_over_when_it_is_looked_at_again(slow_s: float, looks: int, records: int) -> None:
    machine = Machine(slow_s=slow_s)
    found, verdict = machine.judged(machine.run(60), records)
    assert (verdict.word in ("ok", "unclear"), 1 + len(found.remeasured_medians_s)) == (True, looks)
    assert found.judged_medians_s == pytest.approx([STEP_S * factor for factor in FACTORS])


def test_the_first_measurement_is_stored_not_the_fastest() -> None:
    """A later run measures once: its baseline must not be a minimum of several."""
    machine = Machine(slow_s=1)
    found, _ = machine.judged(machine.run(60))
    record = found.to_record()
    assert record.launch_medians_s == pytest.approx([1.4 * STEP_S * factor for factor in FACTORS])
    (again,) = record.remeasured_launch_medians_s or []
    assert again == pytest.approx([STEP_S * factor for factor in FACTORS])
    assert found.seconds_per_step == pytest.approx(1.4 * STEP_S, rel=1e-4)


def test_a_slowdown_is_found_though_bursts_come_too() -> None:
    """Of 12 launches the first nine are slower by half once more. The launches that are judged are not."""
    machine = Machine(slow_s=20, factor=2.1, then=1.4)
    found, verdict = machine.judged(machine.run(60))
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(40)
    assert 1 + len(found.remeasured_medians_s) == MAX_MEASUREMENTS


def test_patience_is_the_run_s_and_with_none_left_there_is_one_look_more_at_once() -> None:
    machine = Machine(slow_s=math.inf)
    run = machine.run(30)
    assert [len(machine.judged(run)[0].remeasured_medians_s) for _ in range(3)] == [3, 1, 1]
    assert [len(machine.judged(machine.run(s))[0].remeasured_medians_s) for s in (0, 11.9, 12)] == [1, 1, 2]


def test_a_look_that_fails_takes_its_time_too() -> None:
    machine = Machine(slow_s=math.inf)
    remeasure_budget = machine.run(60).remeasure_budget
    with pytest.raises(ZeroDivisionError):
        remeasure_budget.later(lambda: 1 // 0, machine.said.append, "x")
    assert remeasure_budget.left_s == 60 - PAUSE_S


def test_another_name_of_a_cell_that_was_looked_at_again_is_not_launched_for() -> None:
    machine = Machine(slow_s=math.inf)
    run = machine.run(60)
    found, _ = machine.judged(run)
    before = list(machine.looks)
    history = [[STEP_S * factor for factor in FACTORS]]
    again, verdict = judge_launches(run, "ddp", found, history, machine.look, machine.look_anew, machine.said.append)
    assert (again, verdict.word, machine.looks) == (found, "slower", before)
