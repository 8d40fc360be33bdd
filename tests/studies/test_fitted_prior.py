"""The shipped prior: it is the fit to the shipped records, and counts none of them twice."""

import pytest

from fixtures.extras.backtest.command import Rule, backtest_of
from fixtures.records.baselines import Priors, history_of, spreads_of
from fixtures.stats.fitted_prior import SHIPPED
from studies.fitted_prior import cuts, fitted_to, read_storage, thresholds


def test_the_shipped_prior_is_the_fit_to_the_shipped_records() -> None:
    """If not: python -m studies.fitted_prior."""
    fitted = fitted_to(read_storage())
    assert (fitted.records, fitted.links) == (SHIPPED.records, SHIPPED.links)
    assert fitted.mean == pytest.approx(SHIPPED.mean, rel=0.01, abs=0.01)
    for row, shipped in zip(fitted.covariance, SHIPPED.covariance, strict=True):
        assert row == pytest.approx(shipped, rel=0.02, abs=0.01)
    assert fitted.usual == pytest.approx(SHIPPED.usual, rel=0.01)


def test_a_shipped_record_in_a_storage_is_not_counted_again() -> None:
    for records in read_storage().values():
        history = history_of(records)
        assert spreads_of(history, own=True) == []
        for recorded in history.values():
            model = Priors(history).model(recorded.kind)
            assert model is None or model.belief in [SHIPPED.belief(number) for number in range(8)]


@pytest.mark.parametrize(("number", "most"), [(1, 3.05), (2, 2.2), (3, 1.5)])
def test_new_storages_over_nvlink_find_little_slowdowns_with_each_model_left_out(number: int, most: float) -> None:
    """Percent, half of the tests; docs/studies/accuracy.md has all kinds."""
    found = thresholds([cut for cut in cuts(read_storage()) if cut.group == "NVLink"], number)
    for (_, instance), tests in found.items():
        limits = sorted(test.verdict.threshold_percent or 0 for test in tests)
        assert not tests or limits[len(limits) // 2] <= most, instance
    words = [test.verdict.word for tests in found.values() for test in tests]
    assert words.count("slower") <= 0.01 * len(words)


def test_records_of_another_machine_of_the_kind_are_its_own() -> None:
    cut = next(cut for cut in cuts(read_storage()) if cut.group == "NVLink")
    assert not {one for recorded in cut.history.values() for one in recorded.finished} & cut.shipped.records.keys()
    assert len(spreads_of(cut.history, own=True, shipped=cut.shipped)) > 1
    assert backtest_of(cut.history, cut.instance, Rule(records=1), shipped=cut.shipped).replays
