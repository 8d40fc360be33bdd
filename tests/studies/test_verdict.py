"""Error rates and power of the verdict, from simulated runs."""

import math
from statistics import fmean

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fixtures.stats.thresholds import MAX_DEGREES
from fixtures.stats.verdict import judge

# Simulated nights without a change: log step time = night N(0, 1 %) + launch N(0, 0.5 %) + step N(0, 3 %),
# and 2 % of the steps take half as long again.

TESTS, LAUNCHES_A_RUN, STEPS = 40, 3, 20

Logs = NDArray[np.float64]


def nights(runs: int, records: int, *, seed: int) -> Logs:
    """Logarithms of launch medians, shape (runs, tests, records + 1, launches); the run itself is last."""
    rng = np.random.default_rng(seed)
    shape = (runs, TESTS, records + 1, LAUNCHES_A_RUN)
    step = 0.03 * rng.standard_normal((*shape, STEPS), dtype=np.float32)
    step += np.float32(math.log(1.5)) * (rng.random(step.shape, dtype=np.float32) < 0.02)
    step.partition((STEPS // 2 - 1, STEPS // 2), axis=-1)
    medians: Logs = step[..., STEPS // 2 - 1 : STEPS // 2 + 1].mean(axis=-1)
    night: Logs = 0.01 * rng.standard_normal((*shape[:-1], 1))
    launch: Logs = 0.005 * rng.standard_normal(shape)
    return night + launch + medians


def called_slower(logs: Logs) -> NDArray[np.bool_]:
    """Vectorised ``judge``: True for slower tests, shape (runs, tests)."""
    means = logs.mean(axis=-1)
    errors = logs.std(axis=-1, ddof=1) / math.sqrt(LAUNCHES_A_RUN)
    now, history = means[..., -1], means[..., :-1]
    m = history.shape[-1]
    squares = ((history - history.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    s = np.sqrt((4 * 0.01**2 + squares) / (3 + m))
    s = np.maximum.reduce([s, errors[..., -1], np.sqrt((errors[..., :-1] ** 2).mean(axis=-1))])
    limit = stats.t.isf(0.01 / TESTS, min(3 + m, MAX_DEGREES)) * s * math.sqrt(1 + 1 / m)
    slower: NDArray[np.bool_] = now - history.mean(axis=-1) > np.maximum(limit, math.log(1.01))
    return slower


@pytest.mark.parametrize("records", [1, 3, 10])
def test_the_vectorised_rule_agrees_with_judge(records: int) -> None:
    logs = nights(4, records, seed=1)
    logs[..., -1, :] += np.linspace(-0.2, 0.3, TESTS)[:, None]  # so that both answers occur
    judged = [
        [judge(list(test[-1]), [list(run) for run in test[:-1]], tests=TESTS).word == "slower" for test in run]
        for run in np.exp(logs)
    ]
    assert 0.1 < fmean(slower for run in judged for slower in run) < 0.9
    assert called_slower(logs).tolist() == judged


@pytest.mark.parametrize("records", [1, 3, 10])
def test_at_most_one_unchanged_run_in_a_hundred_fails(records: int) -> None:
    """Asserts the upper end of the 95 % confidence interval of the share."""
    batches, runs = 8, 500
    red = sum(int(called_slower(nights(runs, records, seed=seed)).any(axis=1).sum()) for seed in range(batches))
    interval = stats.binomtest(red, batches * runs).proportion_ci(0.95)
    assert interval.high <= 0.01, f"{red} of {batches * runs} runs are red, 95 % interval to {interval.high:.2%}"


def test_a_slowdown_of_fifteen_percent_is_found() -> None:
    logs = nights(200, 10, seed=15)
    logs[..., -1, :] += math.log(1.15)
    found = called_slower(logs)
    interval = stats.binomtest(int(found.sum()), found.size).proportion_ci(0.95)
    assert interval.low >= 0.99, f"{found.sum()} of {found.size} found"
