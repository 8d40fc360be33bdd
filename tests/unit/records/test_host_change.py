"""A slower host: in every look, against the records of one test, and for tests that it limits."""

from dataclasses import replace

import pytest

from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import LaunchTimes, host_change
from fixtures.records.measurement import had_no_lead
from fixtures.records.schema import TestRecord
from fixtures.session.canaries import CanaryTimes
from fixtures.stats.decision import explained_by_host
from fixtures.stats.verdict import Verdict

# What a thousand launches took on the slowest ranks of three sets of four H200s, before and after a run, in ms.
MEASURED = [6.84, 5.13, 6.88, 6.99, 5.34, 7.14]
RECORD: dict[str, LaunchTimes] = {"4gpu": {HOST: MEASURED}}


def looks(*slower_percent: float) -> CanaryTimes:
    """Before the first test, and after the last."""
    found = [{HOST: [t * (1 + percent / 100) for t in MEASURED[:3]]} for percent in slower_percent]
    return CanaryTimes(world="4gpu", before_s=found[0], after_s=found[1])


def change(now: CanaryTimes, *records: dict[str, LaunchTimes]) -> Verdict | None:
    return host_change(now.measurements, records, world=now.world, min_slowdown_percent=1)


@pytest.mark.parametrize(("records", "percent"), [(1, 40), (3, 35)])
def test_a_host_that_is_slower_all_the_time_is_found_though_its_processes_lie_apart(
    records: int, percent: float
) -> None:
    verdict = change(looks(percent, percent + 5), *[RECORD] * records)
    assert verdict is not None
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(percent, abs=3)
    assert explained_by_host(47.4, verdict) == verdict.change_percent
    assert explained_by_host(18.7, verdict) == 18.7


@pytest.mark.parametrize("slow", [(40, 0), (0, 40), (40, 3)])
def test_one_look_that_is_not_slower_is_enough(slow: tuple[float, ...]) -> None:
    """Before the first look no code under test has run, and a burst is over by the last."""
    verdict = change(looks(*slow), RECORD)
    assert verdict is not None
    assert verdict.word in ("ok", "unclear")
    assert explained_by_host(40, verdict) == 0


def test_looks_that_there_are_not_do_not_count() -> None:
    now = looks(50, 50)
    now.after_s = {}
    verdict = change(now, RECORD)
    assert verdict is not None
    assert verdict.word == "slower"


@pytest.mark.parametrize("lacks", [{}, {"4gpu": {"copy": [1.0]}}, {"2gpu": {HOST: [1.0]}}])
def test_every_record_of_the_test_must_have_timed_the_host(lacks: dict[str, LaunchTimes]) -> None:
    assert change(looks(50, 50), RECORD, lacks) is None
    assert change(CanaryTimes(world="4gpu", before_s={"copy": [1.0]}), RECORD) is None
    assert explained_by_host(50, None) == 0


@pytest.mark.parametrize(("lead_ms", "limited"), [(0.05, True), (9, True), (11, False), (33.5, False), (None, False)])
def test_a_record_says_whether_the_without_lead_its_test(lead_ms: float | None, limited: bool) -> None:
    record = TestRecord(workload="vit_l_32", launch_medians_s=[0.1], steps_per_s=10)
    assert not had_no_lead(record)
    assert had_no_lead(replace(record, host_lead_ms=lead_ms)) is (None if lead_ms is None else limited)
