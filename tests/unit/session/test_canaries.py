"""Canaries: a launch's times from its ranks' times, their record, and their comparison."""

import pytest

from fixtures.matrix.transfers import HOST
from fixtures.records.baselines import recorded_canaries
from fixtures.records.files import BadRecord, checked_run
from fixtures.session.canaries import CanaryTimes, canary_changes, of_one_launch


@pytest.mark.parametrize(("canary", "second", "took"), [("copy", [2.0, 1.0, 3.0], 3.0), (HOST, [2.0, 2.0, 4.0], 2.5)])
def test_a_repetition_lasts_as_long_as_on_its_slowest_rank_and_of_the_host_as_on_average(
    canary: str, second: list[float], took: float
) -> None:
    assert of_one_launch([{canary: [1.0, 5.0, 1.0]}, {canary: second}]) == {canary: took}


def test_a_record_without_canaries_has_none() -> None:
    assert recorded_canaries(checked_run({})) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"native": {"canaries": {}}, "shm": 3},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [1.0]}}}},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [0.0], "after_s": []}}}},
        {"native": {"world": "2cpu", "canaries": {"copy": {"before_s": [], "after_s": []}}}},
    ],
)
def test_canaries_that_are_none_make_a_bad_record(wrong: object) -> None:
    with pytest.raises(BadRecord, match=r"`\$\.canaries"):
        checked_run({"canaries": wrong})


def test_only_canaries_of_the_same_world_are_compared() -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [2.0, 2.0]}, after_s={"copy": [2.0, 2.0]})
    of_two, of_one = {"2cpu": {"copy": [1.0] * 4}}, {"1cpu": {"copy": [9.0] * 4}}
    changes = canary_changes(now, [of_one, of_two, {}], min_slowdown_percent=1)
    assert (changes["copy"].word, changes["copy"].history) == ("slower", 1)
    assert canary_changes(now, [of_one], min_slowdown_percent=1) == {}


def test_the_host_is_no_canary_for_all_tests() -> None:
    now = CanaryTimes(world="8gpu", before_s={HOST: [2.0] * 3, "copy": [1.0] * 3})
    before = [{"8gpu": {HOST: [1.0] * 3, "copy": [1.0] * 3}}]
    assert canary_changes(now, before, min_slowdown_percent=1).keys() == {"copy"}


@pytest.mark.parametrize("records", [1, 3, 10])
@pytest.mark.parametrize("look", ["before_s", "after_s"])
def test_a_machine_that_is_slow_in_one_look_only_is_slower_by_as_much_as_then(look: str, records: int) -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [1.0] * 3})
    setattr(now, look, {"copy": [1.5] * 3})
    history = [{"2cpu": {"copy": [1.0 + record / 1000] * 6}} for record in range(records)]
    verdict = canary_changes(now, history, min_slowdown_percent=1)["copy"]
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(50, abs=1)


def test_a_machine_that_became_faster_is_no_slower_one() -> None:
    now = CanaryTimes(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [0.5] * 3})
    verdict = canary_changes(now, [{"2cpu": {"copy": [1.0] * 6}}], min_slowdown_percent=1)["copy"]
    assert verdict.word == "faster"
    assert verdict.change_percent == pytest.approx(-50)
