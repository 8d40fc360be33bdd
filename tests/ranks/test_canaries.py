"""Canaries: timed in live ranks, recorded, read back, and compared only within the same world."""

from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.launch.protocol import CanaryRequest, TransferRequest
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.transfers import KINDS
from fixtures.matrix.worlds import INTERCONNECTS, World, parse_world
from fixtures.ranks.bare_operations import REPETITIONS
from fixtures.records.baselines import recorded_canaries
from fixtures.records.schema import RunRecord
from fixtures.session.canaries import Canaries, CanaryTimes

NATIVE, SHM = INTERCONNECTS["native"], INTERCONNECTS["shm"]
ONE, TWO = parse_world("1cpu"), parse_world("2cpu")
LOCAL = {"matrix_product_256", "memory_copy_16mb"}
ALL = LOCAL | {"all_reduce_64kb", "all_reduce_4mb"}


@pytest.fixture(scope="module")
def looks(two_ranks: RankSets) -> CanaryTimes:
    """The canaries of a whole run without tests."""
    canaries = Canaries()
    canaries.before(two_ranks, NATIVE, TWO)
    canaries.after(two_ranks)
    return canaries.times["native"]


def test_every_canary_is_timed_once_a_launch_in_every_look(looks: CanaryTimes) -> None:
    assert looks.before_s.keys() == looks.after_s.keys() == ALL
    assert all(len(times) == 1 and times[0] > 0 for look in looks.measurements for times in look.values())


def test_the_other_build_does_the_same_work_before_the_first_test(
    two_ranks: RankSets, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def run(ranks: RankSet, world: World, function: str, *arguments: Any, **named: Any) -> Any:
        called.append(function)
        return original(ranks, world, function, *arguments, **named)

    original = RankSet.run
    monkeypatch.setattr(RankSet, "run", run)
    two_ranks.of(NATIVE)  # here both sides are the same ranks, which start once
    canaries = Canaries()
    for _test in range(2):
        canaries.before(two_ranks, NATIVE, TWO, other=two_ranks)
    assert called == ["fixtures.ranks.bare_operations:time_canaries"] * 4  # twice on each side
    assert {len(times) for look in canaries.times["native"].measurements for times in look.values()} == {1}


def test_each_rank_times_each_repetition_and_one_alone_has_no_all_reduce(ranks: RankSet) -> None:
    first, second = ranks.ask(TWO, CanaryRequest(world="2cpu"), doing="timing the canaries")
    assert first.keys() == second.keys() == ALL
    assert {len(times) for times in (*first.values(), *second.values())} == {REPETITIONS}
    (result,) = ranks.ask(ONE, CanaryRequest(world="1cpu"), doing="timing the canaries")
    assert result.keys() == LOCAL


def test_a_larger_all_reduce_takes_longer_and_all_looks_of_a_run_take_seconds(looks: CanaryTimes) -> None:
    assert fastest(looks, "all_reduce_4mb") > fastest(looks, "all_reduce_64kb")
    # Launches, looks, repetitions with warm-up: 1 s on an idle machine, 3 s with eight processes a core.
    assert 3 * 2 * 18 * sum(fastest(looks, name) for name in ALL) < 10


def fastest(looks: CanaryTimes, canary: str) -> float:
    return min(min(look[canary]) for look in looks.measurements)


@pytest.fixture
def one_rank() -> Iterator[RankSets]:
    """A set of its own, for tests that end it."""
    sets = RankSets(launches=1, size=1, on_gpu=False, rank_timeout_s=60)
    yield sets
    sets.close()


def test_a_look_costs_no_start_of_ranks_that_are_gone_or_ended_for_another_interconnect(one_rank: RankSets) -> None:
    canaries = Canaries()
    canaries.before(one_rank, NATIVE, ONE)
    one_rank.of(NATIVE)[0].close()
    canaries.after(one_rank)
    assert canaries.times["native"].after_s == {}
    assert not one_rank.alive
    canaries = Canaries()
    canaries.before(one_rank, NATIVE, ONE)
    others = one_rank.of(SHM)
    canaries.after(one_rank)
    assert canaries.times["native"].after_s == {}
    assert one_rank.of(SHM) == others


def test_an_interconnect_is_looked_at_for_the_last_time_before_its_ranks_end(two_ranks: RankSets) -> None:
    canaries = Canaries()
    canaries.before(two_ranks, NATIVE, TWO)
    canaries.leave(two_ranks, NATIVE)
    assert canaries.times["native"].after_s == {}  # its ranks stay
    canaries.leave(two_ranks, SHM)
    assert canaries.times["native"].after_s.keys() == ALL


def test_what_is_recorded_is_read_back_without_the_looks_between(looks: CanaryTimes) -> None:
    (world,) = recorded_canaries(RunRecord(canaries={"native": looks.to_record()}))["native"].items()
    assert world == ("2cpu", {name: [*looks.before_s[name], *looks.after_s[name]] for name in ALL})


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.copy])
def test_every_kind_delivers_and_takes_its_time(ranks: RankSet, kind: str) -> None:
    """The rank checks what arrives."""
    for size, message_bytes in (("8b", 8), ("1mb", 2**20)):
        request = TransferRequest(transfer=f"{kind}_{size}", steps=3, warmup=1)
        results = ranks.ask(parse_world("2cpu"), request, doing=kind)
        assert [len(result) for result in results] == [3, 3]
        assert min(time for result in results for time in result) > message_bytes / 100e9  # no memory is that fast
