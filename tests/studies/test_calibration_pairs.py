"""Simulation of --against (docs/studies/calibration.md): it agrees with ``compare``; error rates are as documented."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from scipy import stats

from fixtures.launch.rank_sets import OWN, Code
from fixtures.records.measurement import Launch, Measurement
from fixtures.session.ab_launches import ABResult, compare
from studies.calibration_pairs import (
    GOAL,
    NOISES,
    NOISES_OF_PROCESSES,
    Noise,
    Rule,
    draw_pairs,
    judge_unchanged,
    judged,
    smallest_found,
)
from tests.builders import SETTINGS, launch, measured

NOISY = ["1 % a launch", "3 % a launch", "0.2 % a launch, outliers", "3 % a launch, outliers"]


class Ranks:
    """Fake of one set of live ranks."""

    def start(self) -> None: ...
    def await_ready(self) -> None: ...
    def join(self, world: object) -> None: ...
    def await_joined(self) -> None: ...
    def close(self) -> None: ...


class Sides:
    """Fake of the rank sets of one build."""

    def __init__(self, launches: int) -> None:
        self.launches = launches
        self.start_s = 0.0
        self.ranks = [Ranks() for _ in range(launches)]

    def of(self, interconnect: object, variables: object, *, code: Code) -> list[Ranks]:
        return self.ranks

    def on_message(self, line: str) -> None: ...


def compared(differences: Sequence[float], earlier: list[list[float]], rule: Rule) -> ABResult[Measurement]:
    """Run ``compare`` on launches with these differences."""
    own, other = Sides(rule.first), Sides(rule.first)

    def one(ranks: Any, number: int) -> Launch:
        return launch(math.exp(differences[number - 1]) if ranks in own.ranks else 1.0)

    return compare(
        measured("ddp", 1),
        "ddp",
        cast(Any, own),
        cast(Any, other),
        one,
        code=OWN,
        settings=replace(SETTINGS, max_pairs=rule.max_pairs, min_slowdown_percent=rule.min_slowdown_percent),
        tests=rule.tests,
        earlier=earlier,
    )


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("launch", [0.002, 0.01])
def test_the_vectorised_rule_agrees_with_the_real_one(first: int, launch: float) -> None:
    rule = Rule(first=first, max_pairs=6, min_slowdown_percent=0.5, tests=12)
    differences = draw_pairs(Noise(launch=launch), runs=8, seed=1, tests=12, pairs=6)
    differences[:, ::3] += math.log(1.02)  # so that every outcome occurs
    differences[:, 1::6] -= math.log(1.3)
    simulated = judged(differences, rule)
    for number, run in enumerate(differences):
        earlier: list[list[float]] = []
        for test, one in enumerate(run):
            pairs = compared([float(difference) for difference in one], earlier, rule)
            earlier.append(pairs.differences)
            assert len(pairs.differences) == simulated.pairs[number, test]
            assert (pairs.verdict.word == "slower") == simulated.slower[number, test]
            assert (pairs.verdict.word == "undecided") == simulated.undecided[number, test]
    assert 0 < simulated.slower.mean() < 1
    assert 0 < simulated.undecided.mean() < 1


def red_share(noise: Noise, rule: Rule) -> tuple[float, float]:
    """95 % confidence interval of the share of failed runs, from 2000 unchanged runs."""
    (of,) = judge_unchanged(noise, rule, batches=1, runs=2000)
    interval = stats.binomtest(of.red, 2000).proportion_ci(0.95)
    return interval.low, interval.high


@pytest.mark.parametrize("noise", NOISY)
def test_at_most_one_unchanged_run_in_a_hundred_fails(noise: str) -> None:
    """Asserts the upper end of the 95 % confidence interval."""
    assert red_share(NOISES[noise], Rule())[1] <= GOAL


@pytest.mark.parametrize("tests", [1, 4])
@pytest.mark.parametrize("noise", ["10 % a launch", "0.3 % a launch, 3 % a process"])
def test_a_run_of_few_tests_fails_no_more_often(noise: str, tests: int) -> None:
    (of,) = judge_unchanged(NOISES_OF_PROCESSES[noise], Rule(tests=tests), batches=1, runs=4000, tests=tests)
    assert stats.binomtest(of.red, 4000, GOAL, alternative="greater").pvalue > 0.05, of.red


@pytest.mark.parametrize("noise", NOISY[:2])
def test_without_dividing_alpha_by_the_tests_more_runs_fail(noise: str) -> None:
    assert red_share(NOISES[noise], Rule(tests=1))[0] > 5 * GOAL


def test_a_slowdown_of_one_percent_is_found_if_launches_are_quiet_and_min_slowdown_is_smaller() -> None:
    quiet = draw_pairs(NOISES["0.2 % a launch"], runs=500, seed=1)
    assert smallest_found(quiet, Rule(min_slowdown_percent=0.5)) < 1 < smallest_found(quiet, Rule())
