"""Simulation behind docs/studies/accuracy.md: it agrees with the real rule; error rates are as documented."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from statistics import fmean

import numpy as np
import pytest

from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import Priors, Recorded, host_change
from fixtures.session.canaries import CanaryTimes, canary_changes
from fixtures.stats.decision import ComparedTest, MeasuredRun, decide, first_verdict
from fixtures.stats.prior import Kind
from studies.calibration import (
    ALL,
    LOOKS,
    NOISES,
    Noise,
    estimated,
    finds,
    nights,
    red_runs,
    smallest_found,
    whole_rule,
    without_canaries,
)
from tests.builders import known

PARTLY_NOISY = Noise(night=0.003, launch=0.003, noisy=0.25)


@pytest.mark.parametrize("records", [1, 10])
def test_the_vectorised_rule_agrees_with_the_real_one(records: int) -> None:
    noise = Noise(night=0.02, machine=0.03, host=0.3, limited=0.25)
    seen = nights(noise, runs=8, records=records, seed=1, tests=20)
    seen.medians[:, :5, -1] += np.linspace(0.1, 1.5, 5)[:, None]  # so that every outcome occurs
    seen.medians[::2, :, -1] += 0.5
    seen = replace(seen, again=seen.medians[..., -1:, :])  # a second measurement changes nothing
    seen.canaries[::4, :, -1] += 0.15
    seen.canaries[2::8, :, -1, 1] += 0.15
    seen.host[::3, :, -1] += 1
    seen.host[1::3, :, -1, 1] += 1
    red, vectorised = whole_rule(seen), estimated(seen)
    words, hosts = [], []
    for number, (tests, canaries) in enumerate(zip(np.exp(seen.medians), np.exp(seen.canaries), strict=True)):
        histories = [[list(run) for run in test[:-1]] for test in tests]
        kinds = [Kind(on_gpu=True, link="NV18", without_lead=bool(limited)) for limited in seen.limited]
        storage = Priors(
            {
                str(index): Recorded(
                    workload="vit",
                    world="8gpu",
                    kind=kinds[index],
                    launch_medians_s=history,
                    finished=["now"] * records,
                    files=[str(record) for record in range(records)],
                )
                for index, history in enumerate(histories)
            }
        )
        priors = [
            storage.prior(list(test[-1]), history, kinds[index])
            for index, (test, history) in enumerate(zip(tests, histories, strict=True))
        ]
        assert [prior.variance for prior in priors] == pytest.approx(list(np.asarray(vectorised.variance)[number]))
        assert [prior.degrees for prior in priors] == pytest.approx(list(np.asarray(vectorised.degrees)[number]))
        before, after = ({str(c): list(one[-1, look]) for c, one in enumerate(canaries)} for look in range(LOOKS))
        verdicts = canary_changes(
            CanaryTimes(world="8gpu", before_s=before, after_s=after),
            [{"8gpu": {str(c): list(one[record].flat) for c, one in enumerate(canaries)}} for record in range(records)],
            min_slowdown_percent=1,
        )
        (times,) = np.exp(seen.host[number])
        host = known(
            host_change(
                [{HOST: list(look)} for look in times[-1]],
                [{"8gpu": {HOST: list(record.flat)}} for record in times[:-1]],
                world="8gpu",
                min_slowdown_percent=1,
            )
        )
        hosts.append(host.word)
        compared = {
            str(index): ComparedTest(
                launch_medians_s=tuple(test[-1]),
                records={str(r): list(run) for r, run in enumerate(test[:-1])},
                first=first_verdict(
                    list(test[-1]),
                    [list(run) for run in test[:-1]],
                    count=20,
                    false_alarms_percent=1,
                    min_slowdown_percent=1,
                    prior=prior,
                    each="a step",
                ),
                host=host if limited else None,
                prior=prior,
            )
            for index, (test, limited, prior) in enumerate(zip(tests, seen.limited, priors, strict=True))
        }
        decision = decide(MeasuredRun(instance="vit", tests=compared, count=20, canaries=verdicts))
        common = known(decision.shift)
        assert common.fails == red.common[number] == any("common_shift" in one.test for one in decision.failures)
        assert math.log1p(common.explained_percent / 100) == pytest.approx(red.explained[number])
        words.append(common.word)
        assert [verdict.word == "slower" for verdict in decision.verdicts.values()] == list(red.single[number])
        assert any(verdict.word == "slower" for verdict in verdicts.values()) == red.machine[number]
    assert {"ok", "slower"} <= set(words)
    assert {"slower"} < set(hosts)
    assert 0 < fmean(red.single.flat) < 1


# Noise, tests, records.
RATES = [
    ("as measured over NVLink", 5, 1),
    ("nights 0.15 %, launches agree", 4, 1),
    ("nights 0.25 %, launches agree", 4, 2),
    ("heavy tails", 40, 3),
    ("heavy tails", 5, 30),
    ("two kinds of host", 40, 1),
    ("two kinds of host", 40, 3),
    ("launches 0.1 % apart", 5, 1),
    ("launches 10 % apart", 40, 1),
    ("launches 60 % apart", 5, 3),
    ("launches 60 % apart", 200, 1),
    ("launches 0.1 to 60 % apart, by test", 5, 1),
    ("launches 0.1 to 60 % apart, by test", 40, 3),
]
# By day; with and without the shipped records.
BY_DAY = [(RATES[0], True), (RATES[5], False), (RATES[-1], True)]


@pytest.mark.parametrize(
    ("rate", "shipped"),
    [
        pytest.param(*case, marks=() if case in BY_DAY else pytest.mark.nightly)
        for case in product(RATES, (True, False))
    ],
)
def test_few_unchanged_runs_fail(rate: tuple[str, int, int], shipped: bool) -> None:
    """The share in more runs is in docs/studies/accuracy.md."""
    name, tests, records = rate
    noise = NOISES[name]
    red, of = red_runs(lambda seen: whole_rule(seen, shipped).runs, noise, records=records, runs=100, tests=tests)
    assert red <= 0.02 * of


def test_a_noisy_host_fails_few_runs_with_its_canary_and_many_without() -> None:
    noise = NOISES["the host's nights 15 %"]
    felt, of = red_runs(lambda seen: whole_rule(seen).runs, noise, records=3, runs=100, tests=40)
    assert felt <= 0.015 * of


def found_in_one(noise: Noise) -> Callable[[float], bool]:
    return finds(lambda seen: whole_rule(seen).single, noise, records=3, runs=10, tests=40)


def test_noisy_tests_do_not_make_quiet_tests_less_sensitive_and_two_percent_are_found_over_nvlink() -> None:
    found = known(smallest_found(found_in_one(replace(PARTLY_NOISY, noisy=0))))
    assert found_in_one(PARTLY_NOISY)(1.25 * found)
    assert found_in_one(NOISES["as measured over NVLink"])(2)


def test_a_machine_that_changed_during_the_run_fails_the_run_and_not_its_tests() -> None:
    seen = nights(Noise(midway=0.3), records=3, runs=20, seed=1, tests=40)
    red = whole_rule(seen)
    assert red.machine.all()
    assert not red.common.any()
    assert red.single.any(axis=1).mean() <= 0.1
    assert without_canaries(seen).all()


def test_a_slowdown_of_all_tests_is_found_where_that_of_one_test_is_not() -> None:
    assert finds(lambda seen: whole_rule(seen).runs, Noise(), records=3, runs=10, tests=40, which=ALL)(6)
    assert not found_in_one(Noise())(6)
