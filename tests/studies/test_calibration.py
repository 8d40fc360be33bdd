"""Simulation behind docs/studies/calibration.md: it agrees with the real rule; error rates are as documented."""

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from fixtures.matrix.canaries import HOST
from fixtures.session.canaries import CanaryTimes, canary_changes
from fixtures.session.host_change import explained_percent, host_change
from fixtures.stats.common_shift import ComparedTest, common_shift, share_of_tests_percent
from fixtures.stats.verdict import PRIOR_SPREAD, judge, noises_of, prior_spread_for
from studies.calibration import (
    ALL,
    LOOKS,
    Noise,
    first_rule,
    nights,
    prior_spreads,
    red_runs,
    smallest_found,
    whole_rule,
    without_canaries,
)

NOISY = Noise(night=0.03)
PARTLY_NOISY = Noise(night=0.003, launch=0.003, noisy=0.25)


@pytest.mark.parametrize("records", [1, 3, 10])
def test_the_vectorised_rule_agrees_with_the_real_one(records: int) -> None:
    noise = Noise(night=0.02, machine=0.03, host=0.3, limited=0.25)
    seen = nights(noise, runs=8, records=records, seed=1, tests=20)
    seen.medians[:, :5, -1] += np.linspace(0.1, 0.6, 5)[:, None]  # so that every outcome occurs
    seen.medians[::2, :, -1] += 0.2
    seen.canaries[::4, :, -1] += 0.15
    seen.canaries[2::8, :, -1, 1] += 0.15
    seen.host[::3, :, -1] += 1
    seen.host[1::3, :, -1, 1] += 1
    red = whole_rule(seen)
    words, hosts = [], []
    for number, (tests, canaries) in enumerate(zip(np.exp(seen.medians), np.exp(seen.canaries), strict=True)):
        histories = [[list(run) for run in test[:-1]] for test in tests]
        priors = [prior_spread_for([list(run) for run in test], noises_of(histories)) for test in tests]
        assert priors == pytest.approx(list(np.broadcast_to(prior_spreads(seen.medians), (8, 20))[number]))
        before, after = ({str(c): list(one[-1, look]) for c, one in enumerate(canaries)} for look in range(LOOKS))
        verdicts = canary_changes(
            CanaryTimes(world="8gpu", before_s=before, after_s=after),
            [{"8gpu": {str(c): list(one[record].flat) for c, one in enumerate(canaries)}} for record in range(records)],
            min_slowdown_percent=1,
        )
        (times,) = np.exp(seen.host[number])
        host = host_change(
            CanaryTimes(world="8gpu", before_s={HOST: list(times[-1, 0])}, after_s={HOST: list(times[-1, 1])}),
            [{"8gpu": {HOST: list(record.flat)}} for record in times[:-1]],
            min_slowdown_percent=1,
        )
        assert host is not None
        hosts.append(host.word)
        common = common_shift(
            [
                ComparedTest(
                    launch_medians_s=tuple(test[-1]),
                    records={str(r): run for r, run in enumerate(test[:-1])},
                    host=host if limited else None,
                )
                for test, limited in zip(tests, seen.limited, strict=True)
            ],
            verdicts,
        )
        assert common is not None
        assert common.fails == red.common[number]
        assert math.log1p(common.explained_percent / 100) == pytest.approx(red.explained[number])
        words.append(common.word)
        for test, prior, limited, found in zip(tests, priors, seen.limited, red.single[number], strict=True):
            verdict = judge(
                list(test[-1]),
                [list(run) for run in test[:-1]],
                tests=20,
                false_alarms_percent=share_of_tests_percent(1, 20),
                prior_spread=prior,
            )
            assert verdict.change_percent is not None
            assert verdict.threshold_percent is not None
            by_host = explained_percent(verdict.change_percent, host if limited else None)
            left = math.log1p(verdict.change_percent / 100) - math.log1p(max(by_host, common.explained_percent) / 100)
            assert (left > math.log1p(verdict.threshold_percent / 100)) == found
    assert {"ok", "slower"} <= set(words)
    assert {"ok", "slower"} <= set(hosts)
    assert 0 < fmean(red.single.flat) < 1


@pytest.mark.parametrize("records", [1, 3])
def test_a_noisy_host_fails_few_runs_with_its_canary_and_many_without(records: int) -> None:
    noise = Noise(night=0.003, launch=0.001, step=0.003, host=0.15, limited=0.25)
    red, of = red_runs(lambda seen: whole_rule(seen).runs, noise, records=records, batches=5, runs=100)
    unfelt, _ = red_runs(without_canaries, noise, records=records, batches=5, runs=100)
    assert red / of < 0.025
    assert unfelt > 4 * red


@pytest.mark.parametrize("noise", [Noise(), NOISY, Noise(bimodal=0.1)], ids=["quiet", "noisy", "bimodal"])
@pytest.mark.parametrize("records", [1, 3, 10])
def test_at_most_one_unchanged_run_in_a_hundred_fails(noise: Noise, records: int) -> None:
    """Asserts the upper end of the 95 % confidence interval."""
    red, of = red_runs(lambda seen: whole_rule(seen).runs, noise, records=records, batches=7, runs=100)
    assert stats.binomtest(red, of).proportion_ci(0.95).high <= 0.01, f"{red} of {of}"


@pytest.mark.parametrize("records", [2, 3])
def test_noisy_tests_neither_fail_runs_nor_make_quiet_tests_less_sensitive(records: int) -> None:
    red, of = red_runs(lambda seen: whole_rule(seen).runs, PARTLY_NOISY, records=records, batches=7, runs=100)
    assert stats.binomtest(red, of).proportion_ci(0.95).high <= 0.01, f"{red} of {of}"
    beside, alone = (
        smallest_found(lambda seen: whole_rule(seen).single, noise, records=records, runs=60)
        for noise in (PARTLY_NOISY, replace(PARTLY_NOISY, noisy=0))
    )
    assert beside is not None
    assert alone is not None
    assert beside < 1.1 * alone


def test_a_fixed_prior_of_one_percent_fails_more_runs_on_a_noisy_machine() -> None:
    red, of = red_runs(first_rule, NOISY, records=3, batches=3, runs=100)
    assert stats.binomtest(red, of).proportion_ci(0.95).low > 0.03, f"{red} of {of}"


def test_only_canaries_excuse_a_slower_machine() -> None:
    nightly = Noise(night=0.005, machine=0.03)
    excused, of = red_runs(lambda seen: whole_rule(seen).runs, nightly, records=3, batches=4, runs=100)
    blamed, _ = red_runs(without_canaries, nightly, records=3, batches=4, runs=100)
    assert excused <= 0.01 * of
    assert blamed > 0.02 * of


def test_canaries_excuse_a_machine_that_changed_during_the_run() -> None:
    midway = Noise(midway=0.3)
    excused, of = red_runs(lambda seen: whole_rule(seen).runs, midway, records=3, batches=2, runs=100)
    blamed, _ = red_runs(without_canaries, midway, records=3, batches=2, runs=100)
    assert excused <= 0.02 * of
    assert blamed == of


def test_a_slowdown_of_all_tests_is_found_where_that_of_one_test_is_not() -> None:
    of_all = smallest_found(lambda seen: whole_rule(seen).runs, Noise(), records=3, runs=60, which=ALL)
    of_one = smallest_found(lambda seen: whole_rule(seen).single, Noise(), records=3, runs=60)
    assert of_all is not None
    assert of_one is not None
    assert of_all < 5 < of_one


def test_tests_that_were_made_faster_between_two_records_do_not_count_as_noise() -> None:
    quiet = [[[0.1], [0.1]] for _ in range(40)]
    assert prior_spread_for(quiet[0], noises_of([*quiet, [[0.2], [0.1]], [[0.4], [0.1]]])) == PRIOR_SPREAD


def test_the_prior_of_a_noisy_instance_is_the_spread_of_its_records() -> None:
    noisy = [[[0.1], [0.1 * math.exp(0.06)]] for _ in range(20)]
    assert prior_spread_for(noisy[0], noises_of(noisy)) == pytest.approx(0.06 / math.sqrt(2))
    assert judge([0.1], noisy[0], prior_spread=0.06 / math.sqrt(2)).threshold_percent == pytest.approx(
        100 * math.expm1(stats.t.isf(0.01, 5) * 0.06 / math.sqrt(2) * math.sqrt(1.5))
    )


def test_the_prior_of_a_test_comes_from_tests_with_a_similar_spread_of_launches() -> None:
    quiet = [[[0.1, 0.1001], [0.1, 0.1001]] for _ in range(30)]
    noisy = [[[0.1, 0.11], [0.13, 0.14]] for _ in range(10)]
    noises = noises_of(quiet + noisy)
    assert prior_spread_for(quiet[0], noises) == PRIOR_SPREAD
    of_all = prior_spread_for(noisy[0], noises)
    assert of_all > 5 * PRIOR_SPREAD
    today_is_loud = [*quiet[0], [0.1, 0.12]]
    assert prior_spread_for(today_is_loud, noises) == of_all


def test_few_tests_or_single_records_leave_the_prior_at_one_percent() -> None:
    few, once = [[[0.1], [0.2]]] * 9, [[[0.1]]] * 40
    assert prior_spread_for(few[0], noises_of(few)) == PRIOR_SPREAD
    assert prior_spread_for(once[0], noises_of(once)) == PRIOR_SPREAD
