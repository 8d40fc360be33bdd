"""Properties in JUnit's file."""

from types import SimpleNamespace

import pytest

from fixtures.session.run_state import RUN, Judged, Run
from fixtures.session.run_verdict import pytest_runtest_makereport
from fixtures.session.settings import SETTINGS
from fixtures.stats.verdict import judge
from tests.builders import SETTINGS as THESE
from tests.builders import measured


def test_a_report_reads_the_result_of_its_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of all tests, for each phase of each."""
    run, read = Run(settings=THESE), []
    for config in ("ddp", "bf16", "no_comm"):
        run.measured[config] = Judged(measurement=measured(config, 10), verdict=judge([0.1], []))
    updated = Run._updated

    def reading(self: Run, test: str, judged: Judged) -> Judged:  # type: ignore[type-arg]  # of measurements
        read.append(test)
        return updated(self, test, judged)

    monkeypatch.setattr(Run, "_updated", reading)
    item = SimpleNamespace(config=SimpleNamespace(stash={RUN: run, SETTINGS: THESE}), nodeid="bf16", user_properties=[])
    for phase in ("setup", "call", "teardown"):
        next(pytest_runtest_makereport(item, SimpleNamespace(when=phase)))  # type: ignore[arg-type]  # these attributes
    assert read == ["bf16"]
    assert ("steps_per_s", pytest.approx(10)) in item.user_properties
