"""Prior of the variance between runs: its estimate, its shrinkage, and its effect on a threshold."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from fixtures.stats.fitted_prior import SHIPPED
from fixtures.stats.prior import (
    WIDE,
    Kind,
    LaunchSpread,
    Prior,
    PriorModel,
    Spread,
    diagonal,
    fit,
    launches_of,
    maximise,
    vague,
    wide,
)
from fixtures.stats.thresholds import FLOOR, OWN_RECORDS, PRIOR_DEGREES
from fixtures.stats.verdict import LogChange, change_of, judge, run_scale

KIND = Kind(on_gpu=True)


def spreads(number: int, *, between: float, launch: float = 0.001, own: bool = True, seed: int = 1) -> list[Spread]:
    """Tests with 3 records, which vary by ``between``, a standard deviation; their launches by ``launch``."""
    rng = np.random.default_rng(seed)
    return [
        Spread(
            between=between**2 * rng.chisquare(2) / 2,
            degrees=2,
            launches=LaunchSpread(variance=launch**2 / 3, degrees=6, number=3),
            kind=KIND,
            own=own,
        )
        for _ in range(number)
    ]


def fit_of(tests: list[Spread]) -> PriorModel:
    return fit(tests, vague(tests), fitted=False)


def prior_of(tests: list[Spread], kind: Kind = KIND, launch: float = 0.001) -> Prior:
    return fit_of(tests).prior(LaunchSpread(variance=launch**2 / 3, degrees=8, number=3), kind, 3)


@pytest.mark.parametrize("between", [0.003, 0.01, 0.05])
def test_the_prior_of_many_tests_is_how_far_their_records_lie_apart(between: float) -> None:
    assert math.sqrt(prior_of(spreads(200, between=between)).variance) == pytest.approx(between, rel=0.2)


def test_records_that_agree_do_not_lower_the_prior_below_the_floor() -> None:
    assert FLOOR**2 <= prior_of(spreads(100, between=1e-5)).variance < 2 * FLOOR**2


def test_tests_that_vary_alike_give_many_degrees_of_freedom_and_others_few() -> None:
    alike = fit_of(spreads(300, between=0.02))
    unlike = fit_of([spread for k in range(300) for spread in spreads(1, between=0.02 * 4 ** (k % 3 - 1), seed=k)])
    assert math.exp(unlike.belief.mean[-1]) < 3 < PRIOR_DEGREES < math.exp(alike.belief.mean[-1])
    assert prior_of(spreads(300, between=0.02)).degrees == PRIOR_DEGREES


def test_a_few_tests_that_were_made_faster_between_two_records_change_the_prior_little() -> None:
    quiet = spreads(60, between=0.003)
    changed = [replace(spread, between=0.25**2) for spread in quiet[:3]]
    with_changed, without = prior_of([*changed, *quiet[3:]]), prior_of(quiet)
    assert math.sqrt(with_changed.variance / without.variance) < 1.2


def test_a_test_is_predicted_from_its_launches_its_way_and_its_instance() -> None:
    mixed = [*spreads(40, between=0.003, launch=0.001), *spreads(40, between=0.05, launch=0.02)]
    quiet, noisy = prior_of(mixed, launch=0.001), prior_of(mixed, launch=0.02)
    assert 5 < math.sqrt(noisy.variance / quiet.variance) < 30
    host = Kind(on_gpu=True, through_host=True)
    mixed = [*spreads(40, between=0.003), *(replace(spread, kind=host) for spread in spreads(40, between=0.03))]
    assert math.sqrt(prior_of(mixed, host).variance / prior_of(mixed).variance) > 4
    others = spreads(80, between=0.003, own=False)
    assert math.sqrt(prior_of([*others, *spreads(40, between=0.02)]).variance / prior_of(others).variance) > 2


QUIET = LaunchSpread(variance=0.001**2 / 3, degrees=6, number=3)
SHIPPED_KIND = Kind(on_gpu=True, link="NV18")


def test_another_kind_of_machine_has_the_wide_prior_until_a_test_has_three_records() -> None:
    model = fit_of(spreads(8, between=0.002))
    priors = [model.prior(QUIET, KIND, records) for records in (1, 2, OWN_RECORDS)]
    assert priors[:2] == [wide(QUIET.of_one)] * 2
    assert priors[2].variance < 0.5 * WIDE.variance
    assert not any(SHIPPED.holds_for(kind) for kind in (KIND, Kind(on_gpu=True, link="NET"), Kind(on_gpu=False)))


def test_the_prior_has_no_step_at_a_number_of_tests() -> None:
    variances = [prior_of(spreads(number, between=0.003)).variance for number in range(1, 30)]
    assert max(abs(math.log(a / b)) for a, b in itertools.pairwise(variances)) < 1
    assert WIDE.variance >= variances[0] > 2 * variances[-1]


def test_the_shipped_prior_holds_from_the_first_record_on_and_own_records_move_it_by_their_weight() -> None:
    shipped = SHIPPED.belief(None)
    assert SHIPPED.holds_for(SHIPPED_KIND)
    few, many = (
        fit(spreads(number, between=0.01), shipped, fitted=True).prior(QUIET, SHIPPED_KIND, 3).variance
        for number in (2, 60)
    )
    assert fit([], shipped, fitted=True).prior(QUIET, SHIPPED_KIND, 1).variance < 0.004**2 < few < many


def test_the_shipped_prior_is_never_above_the_wide_one_before_three_records() -> None:
    model, noisy = fit([], SHIPPED.belief(None), fitted=True), LaunchSpread(variance=0.1**2 / 3, degrees=6, number=3)
    assert [model.prior(noisy, SHIPPED_KIND, records) for records in (1, 2)] == [wide(noisy.of_one)] * 2
    assert model.prior(noisy, SHIPPED_KIND, OWN_RECORDS).variance > 2 * wide(noisy.of_one).variance


def test_a_machine_of_the_fit_is_known_better_than_another_one() -> None:
    numbers = [None, *sorted(set(SHIPPED.records.values()))]
    errors = [SHIPPED.belief(number).predicted(QUIET, SHIPPED_KIND)[1] for number in numbers]
    assert errors[0] > 2 * max(errors[1:])


def test_three_launches_that_agree_by_chance_do_not_make_a_quiet_test() -> None:
    model = fit_of(spreads(60, between=0.01, launch=0.01))
    lucky, usual = (model.prior(LaunchSpread(variance=v, degrees=4, number=3), KIND, 3) for v in (0.0, 0.01**2 / 3))
    assert lucky.variance > 0.05 * usual.variance


def test_one_record_shows_nothing_of_the_nights_so_they_add_as_much_as_its_launches() -> None:
    model = fit(spreads(60, between=0.001), SHIPPED.belief(None), fitted=True)
    noisy = LaunchSpread(variance=0.01**2 / 3, degrees=6, number=3)
    one, two = (model.prior(noisy, SHIPPED_KIND, records) for records in (1, 2))
    assert (one.variance, one.launch) == pytest.approx((2 * 0.01**2 / 3, 0.01**2))
    assert two.variance < one.variance


def test_the_spread_of_launches_is_that_of_a_runs_mean() -> None:
    logs = [[0.0, 0.02], [0.1, 0.1], [0.2, 0.24]]
    launches = launches_of([[math.exp(log) for log in run] for run in logs])
    assert launches.variance == pytest.approx(np.mean([np.var(run, ddof=1) / 2 for run in logs]))
    assert (launches.degrees, launches.number) == (3, 2)
    unknown = launches_of([[0.1], [0.2]])
    assert (unknown.degrees, unknown.number) == (0, 1)


def test_the_estimate_is_the_maximum_of_fishers_distribution() -> None:
    """Against scipy's density and an optimiser without gradients."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([np.ones(50), rng.normal(size=50), *(rng.integers(0, 2, 50) for _ in range(2))])
    degrees = rng.integers(1, 4, 50)
    between = 1e-5 * rng.f(degrees, 5)
    (like,) = spreads(1, between=0.01)
    tests = [
        replace(like, between=float(variance), degrees=int(number))
        for variance, number in zip(between, degrees, strict=True)
    ]
    mean, deviation = np.array([math.log(2e-6), 1, 1, 0, math.log(4)]), np.array([2, 0.5, 1, 0.7, 0.7])
    found, covariance = maximise(rows.tolist(), tests, mean.tolist(), diagonal(deviation.tolist()))
    best = np.array(found)

    def posterior(parameters: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
        v = FLOOR**2 + np.exp(rows @ parameters[:-1])
        off = (parameters - mean) / deviation
        likelihood = stats.f.logpdf(between / v, degrees, math.exp(parameters[-1])) - np.log(v)
        return float((off**2).sum() / 2 - likelihood.sum())

    other = optimize.minimize(posterior, best + 0.1, method="Nelder-Mead", options={"maxiter": 20000, "fatol": 1e-9})
    assert posterior(best) <= other.fun + 1e-4
    assert best == pytest.approx(other.x, abs=0.05)
    for number in range(len(best)):
        step = 0.01 * np.eye(len(best))[number]
        curvature = (posterior(best + step) - 2 * posterior(best) + posterior(best - step)) / 1e-4
        assert np.linalg.inv(np.array(covariance))[number, number] == pytest.approx(curvature, rel=0.02)


def test_fewer_launches_than_the_records_have_raise_the_threshold() -> None:
    prior = Prior(variance=0.002**2, degrees=5, launch=0.01**2)
    history = [[0.1, 0.1, 0.1]] * 3
    errors = [change_of([0.1] * launches, history, prior).error for launches in (1, 2, 3, 4)]
    between = errors[2] ** 2
    assert [error**2 - between for error in errors] == pytest.approx([1e-4 * 2 / 3, 1e-4 / 6, 0, 0])


SCATTERED = [LogChange(log=0.01 * float(z), error=0.01, degrees=4) for z in stats.t.ppf(np.linspace(0.01, 0.99, 99), 4)]


def changed(factor: float, shift: float = 0.0) -> list[LogChange]:
    return [replace(change, log=factor * change.log + shift) for change in SCATTERED]


def test_the_run_scale_is_how_much_further_tests_lie_apart_than_unchanged_ones_and_no_less_than_one() -> None:
    assert run_scale(SCATTERED) == pytest.approx(1, abs=0.02)
    assert [run_scale(changed(3), faster=faster) for faster in (False, True)] == pytest.approx([3, 3], abs=0.1)
    assert run_scale(changed(0.1)) == 1


def test_a_common_change_or_a_regression_in_half_of_the_tests_widens_no_threshold() -> None:
    assert run_scale(changed(1, shift=-0.5)) == pytest.approx(1, abs=0.02)
    assert run_scale(changed(1, shift=0.5), faster=True) == pytest.approx(1, abs=0.02)
    half = [replace(change, log=change.log + (0.1 if number % 2 else 0)) for number, change in enumerate(SCATTERED)]
    assert run_scale(half) == 1
    # All slower by different amounts.
    slower = [replace(change, log=0.02 + 0.05 * number) for number, change in enumerate(SCATTERED[:5])]
    assert run_scale(slower) == 1
    assert run_scale([replace(change, log=-change.log) for change in slower], faster=True) == 1


def test_the_scale_multiplies_the_threshold() -> None:
    assert judge([0.1], [[0.1]], scale=3, min_slowdown_percent=0.1).threshold_percent == pytest.approx(
        100 * math.expm1(3 * math.log1p((judge([0.1], [[0.1]]).threshold_percent or 0) / 100))
    )
