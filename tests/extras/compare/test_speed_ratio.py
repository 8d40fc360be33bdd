"""Means of logarithms and their ratio: Welch's interval, against scipy and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fixtures.extras.compare.speed_ratio import Estimate, estimate, ratio

ONE, OTHER = [100.0, 101.0, 99.5], [80.0, 83.0, 81.0, 79.0]


def test_the_estimate_is_the_geometric_mean_with_the_interval_of_t_and_the_ratio_has_that_of_welch() -> None:
    logs = np.log(ONE)
    expected = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    found = estimate(ONE)
    assert found.value == pytest.approx(stats.gmean(ONE))
    assert found.interval == pytest.approx([math.exp(bound) for bound in expected])
    of_both = stats.ttest_ind(np.log(ONE), np.log(OTHER), equal_var=False).confidence_interval(0.95)
    found = ratio(estimate(ONE), estimate(OTHER))
    assert found.value == pytest.approx(stats.gmean(ONE) / stats.gmean(OTHER))
    assert found.interval == pytest.approx([math.exp(of_both.low), math.exp(of_both.high)])


def test_one_value_has_no_interval_and_decides_nothing_and_no_values_are_an_error() -> None:
    assert estimate([5.0]).interval is None
    apart = ratio(estimate([5.0]), estimate(OTHER))
    assert apart.value == pytest.approx(5 / stats.gmean(OTHER))
    assert (apart.interval, apart.is_not(1)) == (None, None)
    # Equal values have an interval without width.
    apart = ratio(estimate([3.0, 3.0]), estimate([2.0, 2.0]))
    assert apart.interval == pytest.approx((1.5, 1.5))
    assert apart.is_not(1)
    with pytest.raises(ValueError, match="no values"):
        estimate([])


def test_equal_machines_are_called_different_in_one_of_twenty() -> None:
    random = np.random.default_rng(7)

    def machine() -> Estimate:
        return estimate(list(np.exp(random.normal(0, 0.02, 3))))

    called = sum(bool(ratio(machine(), machine()).is_not(1)) for _ in range(2000))
    assert 0.02 < called / 2000 < 0.065
