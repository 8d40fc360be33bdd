"""Simulation of --against (docs/studies/accuracy.md): it agrees with the rule; error rates are as documented."""

import math

import numpy as np
import pytest
from scipy import stats

from fixtures.session.ab_launches import judge_sides
from studies.calibration_pairs import GOAL, LIMIT_S, NOISES, Noise, Rule, judge, judged

NOISY = ["3 % a process, 1 % a launch", "0.2 %, 0.1 %, 20 % of the processes outlying"]


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("process", [0.002, 0.01])
def test_the_vectorised_rule_agrees_with_the_real_one(first: int, process: float) -> None:
    rule = Rule(first=first, max_pairs=6, tests=12)
    logs = process * np.random.default_rng(1).standard_normal((8, 12, 2, 6))
    logs[:, ::3, 0] += math.log(1.02)  # so that every outcome occurs
    logs[:, 1::6, 0] -= math.log(1.3)
    simulated = judged(logs, rule)
    looks = math.ceil(6 / first)
    for run, test in np.ndindex(8, 12):
        own, other = np.exp(logs[run, test])
        words = [
            judge_sides(list(own[:n]), list(other[:n]), tests=12, looks=looks)[0].word for n in range(first, 7, first)
        ]
        decided = [number for number, word in enumerate(words) if word != "unclear"]
        last = decided[0] if decided else len(words) - 1
        assert simulated.pairs[run, test] == (last + 1) * first
        assert simulated.slower[run, test] == (words[last] == "slower")
        assert simulated.ok[run, test] == (words[last] == "ok")
    assert 0 < simulated.slower.mean() < 1


@pytest.mark.parametrize("tests", [1, 4])
@pytest.mark.parametrize("noise", NOISY)
def test_at_most_one_unchanged_run_in_a_hundred_fails(noise: str, tests: int) -> None:
    red = judge(NOISES[noise], Rule(tests=tests), runs=4000).red
    assert stats.binomtest(red, 4000, GOAL, alternative="greater").pvalue > 0.05, red


def test_without_dividing_alpha_by_the_tests_and_looks_more_runs_fail() -> None:
    assert judge(NOISES[NOISY[0]], Rule(tests=1, alpha=4 * GOAL), runs=4000).red > 1.5 * GOAL * 4000


def test_processes_as_on_h100s_are_decided_within_the_limit_where_repeating_launches_in_them_is_not() -> None:
    noise = NOISES["0.3 % a process, 0.1 % a launch"]

    def in_time(rule: Rule) -> float:
        of = judge(noise, rule, runs=2000)
        return float((of.ok[:, 0] & (of.seconds(rule) <= LIMIT_S)).mean())

    assert in_time(Rule()) > 0.98 > 0.8 > in_time(Rule(in_a_set=3))


def test_an_outlying_process_keeps_a_test_undecided_only_where_nothing_is_trimmed() -> None:
    noise = Noise(process=0.002, launch=0.001, outliers=0.05)
    share = {trimmed: judge(noise, Rule(trimmed=trimmed), runs=2000).ok.mean() for trimmed in (0, 4)}
    assert share[4] > 0.97 > 0.85 > share[0]
