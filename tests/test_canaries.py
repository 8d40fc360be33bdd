"""Canaries: timed in live ranks, kept in a record, read back, and compared only with those of the same world."""

from typing import Any

import pytest

from fixtures.judge.canaries import Canaries, Looks, canary_changes, of_one_launch, recorded_canaries
from fixtures.judge.records import BadRecord
from fixtures.matrix.canaries import HOST
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World, parse_world
from fixtures.ranks.canaries import REPETITIONS
from fixtures.ranks.rank_set import RankSet
from fixtures.ranks.rank_sets import RankSets

NATIVE, TWO = INTERCONNECTS["native"], parse_world("2cpu")
LOCAL = {"matrix_product_256", "memory_copy_16mb"}
ALL = LOCAL | {"all_reduce_64kb", "all_reduce_4mb"}


@pytest.fixture(scope="module")
def looks(two_ranks: RankSets) -> Looks:
    """A whole run without tests."""
    canaries = Canaries()
    canaries.before(two_ranks, NATIVE, TWO)
    canaries.again(two_ranks)
    canaries.after(two_ranks)
    return canaries.looks["native"]


def test_every_canary_is_timed_once_a_launch_in_every_look(looks: Looks) -> None:
    assert looks.before_s.keys() == looks.later_s.keys() == looks.after_s.keys() == ALL
    assert all(len(times) == 1 and times[0] > 0 for look in looks.all for times in look.values())


def test_the_other_build_does_the_same_work_before_the_first_test(
    two_ranks: RankSets, monkeypatch: pytest.MonkeyPatch
) -> None:
    sung = []

    def run(ranks: RankSet, world: World, function: str, *arguments: Any, **named: Any) -> Any:
        sung.append(function)
        return plain(ranks, world, function, *arguments, **named)

    plain = RankSet.run
    monkeypatch.setattr(RankSet, "run", run)
    canaries = Canaries()
    for _test in range(2):
        canaries.before(two_ranks, NATIVE, TWO, other=two_ranks)
    assert sung == ["fixtures.ranks.canaries:sing"] * 2
    assert {len(times) for look in canaries.looks["native"].all for times in look.values()} == {1}


def test_each_rank_times_each_repetition(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(NATIVE)
    one, other = ranks.run(TWO, "fixtures.ranks.canaries:sing", {"world": "2cpu"}, doing="timing the canaries")
    assert one.keys() == other.keys() == ALL
    assert {len(times) for times in (*one.values(), *other.values())} == {REPETITIONS}


def test_one_rank_has_no_all_reduce(two_ranks: RankSets) -> None:
    (ranks,) = two_ranks.of(NATIVE)
    (answer,) = ranks.run(
        parse_world("1cpu"), "fixtures.ranks.canaries:sing", {"world": "1cpu"}, doing="timing the canaries"
    )
    assert answer.keys() == LOCAL


def test_a_larger_all_reduce_takes_longer(looks: Looks) -> None:
    assert fastest(looks, "all_reduce_4mb") > fastest(looks, "all_reduce_64kb")


def test_all_looks_of_a_run_take_less_than_two_seconds(looks: Looks) -> None:
    assert 3 * 2 * 18 * sum(fastest(looks, name) for name in ALL) < 2  # launches, looks, repetitions with warm-up


def fastest(looks: Looks, canary: str) -> float:
    return min(min(look[canary]) for look in looks.all)


def test_a_look_costs_no_start_of_ranks_that_are_gone(two_ranks: RankSets) -> None:
    canaries = Canaries()
    canaries.before(two_ranks, NATIVE, TWO)
    two_ranks.of(NATIVE)[0].close()
    canaries.after(two_ranks)
    assert canaries.looks["native"].after_s == {}
    assert not two_ranks.alive


def test_a_repetition_lasts_as_long_as_on_its_slowest_rank() -> None:
    assert of_one_launch([{"copy": [1.0, 5.0, 1.0]}, {"copy": [2.0, 1.0, 3.0]}]) == {"copy": 3.0}


def test_the_host_is_as_fast_as_its_ranks_on_average() -> None:
    assert of_one_launch([{HOST: [1.0, 5.0, 1.0]}, {HOST: [2.0, 2.0, 4.0]}]) == {HOST: 2.5}


def test_what_is_recorded_is_read_back_without_the_looks_between(looks: Looks) -> None:
    (world,) = recorded_canaries({"canaries": {"native": looks.recorded()}})["native"].items()
    assert world == ("2cpu", {name: [*looks.before_s[name], *looks.after_s[name]] for name in ALL})


def test_a_record_without_canaries_has_none() -> None:
    assert recorded_canaries({}) == {}


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
    with pytest.raises(BadRecord, match=r"its canaries are incomplete|canary copy: must be positive times"):
        recorded_canaries({"canaries": wrong})


def test_only_canaries_of_the_same_world_are_compared() -> None:
    now = Looks(world="2cpu", before_s={"copy": [2.0, 2.0]}, after_s={"copy": [2.0, 2.0]})
    of_two, of_one = {"2cpu": {"copy": [1.0] * 4}}, {"1cpu": {"copy": [9.0] * 4}}
    changes = canary_changes(now, [of_one, of_two, {}], min_slowdown_percent=1)
    assert (changes["copy"].word, changes["copy"].history) == ("slower", 1)
    assert canary_changes(now, [of_one], min_slowdown_percent=1) == {}


def test_the_host_is_no_canary_for_all_tests() -> None:
    now = Looks(world="8gpu", before_s={HOST: [2.0] * 3, "copy": [1.0] * 3})
    assert canary_changes(now, [{"8gpu": {HOST: [1.0] * 3, "copy": [1.0] * 3}}], min_slowdown_percent=1).keys() == {
        "copy"
    }


@pytest.mark.parametrize("records", [1, 3, 10])
@pytest.mark.parametrize("look", ["before_s", "later_s", "after_s"])
def test_a_machine_that_is_slow_in_one_look_only_is_slower_by_as_much_as_then(look: str, records: int) -> None:
    now = Looks(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [1.0] * 3})
    setattr(now, look, {"copy": [1.5] * 3})
    history = [{"2cpu": {"copy": [1.0 + record / 1000] * 6}} for record in range(records)]
    verdict = canary_changes(now, history, min_slowdown_percent=1)["copy"]
    assert verdict.word == "slower"
    assert verdict.change_percent == pytest.approx(50, abs=1)


def test_a_machine_that_became_faster_is_no_slower_one() -> None:
    now = Looks(world="2cpu", before_s={"copy": [1.0] * 3}, after_s={"copy": [0.5] * 3})
    verdict = canary_changes(now, [{"2cpu": {"copy": [1.0] * 6}}], min_slowdown_percent=1)["copy"]
    assert verdict.word == "faster"
    assert verdict.change_percent == pytest.approx(-50)
