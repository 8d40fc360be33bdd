"""Remeasurement of suspects after the last test: its number, its times, and its end when a test is not slower."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fixtures.records.measurement import Launch
from fixtures.session import run_verdict
from fixtures.session.case import Case
from fixtures.session.run_state import Run
from fixtures.session.run_verdict import measure_again
from fixtures.stats.thresholds import MAX_MEASUREMENTS, PAUSE_S
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS, case_of, launch, measured

STEP_S = 0.1
LOOK_S = 2.0
FACTORS = (0.99, 1.0, 1.01)
SLOWER = judge([1.4 * STEP_S] * 3, [[STEP_S] * 3])


@dataclass(kw_only=True)
class Machine:
    """Slower by 40 % for ``slow_s`` seconds.

    looks: when each measurement began, LOOK_S long. fails: keys of tests that cannot be launched again.
    """

    slow_s: float
    now_s: float = 0.0
    looks: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    renewed: int = 0
    fails: tuple[str, ...] = ()

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def renew(self) -> None:
        self.renewed += 1

    def look(self) -> tuple[Launch, ...]:
        self.looks.append(self.now_s)
        step_s = STEP_S * (1.4 if self.now_s < self.slow_s else 1)
        self.now_s += LOOK_S
        return tuple(launch(step_s * factor) for factor in FACTORS)

    def launch(self, run: Run, case: Case[Any]) -> None:
        if case.subject.key in self.fails:
            pytest.fail("rank 1 died of SIGKILL")
        medians = tuple(launch.step_s[0] for launch in self.look())
        case.shared.remeasured_medians_s = (*case.shared.remeasured_medians_s, medians)

    def run(self, *tests: str, keys: dict[str, str] | None = None) -> Run:
        run = Run(settings=replace(SETTINGS, launches=len(FACTORS)))
        for test in tests:
            key = (keys or {}).get(test, test)
            case = case_of(measurement=measured("ddp", 1, launches=self.look()), verdict=SLOWER, key=key, decided=None)
            run.cases[test] = case
            case.shared = run.launches.setdefault(key, case.shared)
        self.now_s, self.looks = 0.0, []
        return run

    def measure_again(self, run: Run) -> dict[str, str]:
        def suspects() -> list[str]:
            return [test for test, case in run.cases.items() if case.measurement.judged_medians_s[0] > 1.2 * STEP_S]

        return measure_again(
            run,
            suspects,
            self.renew,
            self.said.append,
            launch=self.launch,
            sleep=self.sleep,
            clock=lambda: self.now_s,
        )


def again_s(run: Run, test: str) -> list[float]:
    """Second launch of each later measurement."""
    return [medians[1] for medians in run.judged[test].measurement.remeasured_medians_s]


def test_a_run_without_suspects_is_over() -> None:
    machine = Machine(slow_s=0)
    machine.measure_again(machine.run("ddp"))
    assert (machine.looks, machine.said, machine.renewed) == ([], [], 0)


def test_a_slowdown_is_measured_four_times_in_all_each_time_in_new_processes() -> None:
    machine = Machine(slow_s=math.inf)
    run = machine.run("ddp")
    assert machine.measure_again(run) == {}
    assert machine.looks == [0, LOOK_S + PAUSE_S, 2 * (LOOK_S + PAUSE_S)]
    assert again_s(run, "ddp") == pytest.approx([1.4 * STEP_S] * (MAX_MEASUREMENTS - 1))
    assert machine.renewed == MAX_MEASUREMENTS - 1
    assert machine.said == [
        "1 test may be slower: launched again in new processes",
        "1 test may be slower: launched again in new processes after 10 s",
        "1 test may be slower: launched again in new processes after 10 s",
    ]


@pytest.mark.parametrize(("slow_s", "looks"), [(1, 2), (11, 2), (13, 3), (30, 3)])
def test_a_burst_that_is_over_clears_its_tests(slow_s: float, looks: int) -> None:
    machine = Machine(slow_s=slow_s)
    run = machine.run("ddp")
    machine.measure_again(run)
    assert len(machine.looks) == looks
    m = run.judged["ddp"].measurement
    assert m.judged_medians_s == pytest.approx([STEP_S * factor for factor in FACTORS]) or slow_s == 30
    # The first measurement is stored: a later run measures once, and its baseline must not be a minimum.
    assert m.to_record().launch_medians_s == m.launch_medians_s == pytest.approx([1.4 * STEP_S * f for f in FACTORS])


@pytest.mark.parametrize(("recheck_s", "looks"), [(0, 1), (11.9, 1), (12, 2), (23.9, 2), (24, 3)])
def test_later_measurements_have_a_limit_of_time(recheck_s: float, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_verdict, "RECHECK_S", recheck_s)
    machine = Machine(slow_s=math.inf)
    machine.measure_again(machine.run("ddp"))
    assert len(machine.looks) == looks


def test_two_names_of_one_config_are_launched_once() -> None:
    machine = Machine(slow_s=0.5)
    run = machine.run("bf16", "bf16-bucket_2000mb", "ddp", keys={"bf16-bucket_2000mb": "bf16"})
    machine.slow_s = 0
    run.cases["ddp"].shared.launches = (launch(STEP_S),)
    machine.measure_again(run)
    assert len(machine.looks) == 1
    assert again_s(run, "bf16") == again_s(run, "bf16-bucket_2000mb") == pytest.approx([STEP_S])
    assert again_s(run, "ddp") == []


def test_a_test_whose_launch_fails_is_named_and_not_tried_again() -> None:
    machine = Machine(slow_s=math.inf, fails=("ddp",))
    run = machine.run("ddp", "bf16")
    assert machine.measure_again(run) == {"ddp": "rank 1 died of SIGKILL"}
    assert (len(again_s(run, "ddp")), len(again_s(run, "bf16"))) == (0, 3)
