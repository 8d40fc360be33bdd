"""Mechanisms taken out of the verdict: the study takes out what it says."""

import pytest

from fixtures.extras.backtest import replays
from fixtures.records.priors import Priors
from fixtures.stats.verdict import run_scale
from studies import mechanisms
from studies.mechanisms import SIMULATED, in_simulation, without


def test_a_mechanism_is_out_only_within_the_study() -> None:
    prior = Priors.prior
    with without("the fitted prior"):
        assert Priors.prior is not prior
    with without("the run scale"):
        assert vars(replays)["run_scale"] is not run_scale
    assert (Priors.prior, vars(replays)["run_scale"]) == (prior, run_scale)


def test_without_the_fitted_prior_two_percent_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "_RUNS", 100)
    rates = {name: in_simulation(name, "as measured over NVLink") for name in SIMULATED}
    assert rates["as it is"][1] > 90 > 10 > rates["the fitted prior"][1]
    assert all(red <= 1 for red, _ in rates.values())
