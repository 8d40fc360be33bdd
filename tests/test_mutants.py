"""The checks of gradients catch every hook that is broken on purpose, and none that is sound."""

from collections.abc import Iterator
from itertools import product

import pytest

from fixtures.matrix.averages import AVERAGES, SHAPES, Average
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.failure import RankFailure
from fixtures.ranks.rank_sets import RankSets
from tests import mutants
from tests.mutants import MUTANTS, SOUND, WIRE_MUTANTS

WORLDS = [World(backend="gloo", size=size) for size in (3, 2)]
OPTIONS = ("bucket_1kb", "default")
EVERY_WAY = list(product(WORLDS, OPTIONS))
SOME_WAYS = list(zip(WORLDS, OPTIONS, strict=True))
PATIENCE_S, LITTLE_PATIENCE_S = 60.0, 3.0


@pytest.fixture(scope="module")
def rank_sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=PATIENCE_S, say=lambda text: None)
    yield sets
    sets.close()


def ask(rank_sets: RankSets, function: str, average: Average, world: World, **arguments: object) -> list[str]:
    """What a check has to say against this hook; a failure of the ranks counts as well."""
    (ranks,) = rank_sets.of(INTERCONNECTS["native"])
    ranks.rank_timeout_s = LITTLE_PATIENCE_S if average == mutants.rank_1_skips_a_collective else PATIENCE_S
    arguments["average"] = average.name
    doing = f"{function} of {average.name} on {world.name}"
    try:
        answers = ranks.run(world, f"fixtures.ranks.equivalence.{function}", arguments, doing=doing)
    except RankFailure as failure:
        return [str(failure)]  # which begins with ``doing``
    return [f"{doing}: {line}" for answer in answers for line in answer["violations"]]


def against(rank_sets: RankSets, average: Average, world: World, option: str) -> Iterator[str]:
    """What ``perf/test_gradients.py`` would say, one kind of gradient after the other."""
    shapes = [list(shape) for shape in SHAPES]
    for kind in average.kinds:
        yield from ask(
            rank_sets, "check:check", average, world, option=option, kinds=[kind], seed=0, shapes=shapes, steps=3
        )


def short(average: Average) -> str:
    return average.name.removeprefix("tests.mutants:")


@pytest.mark.parametrize("average", MUTANTS, ids=short)
def test_a_broken_hook_is_caught(rank_sets: RankSets, average: Average) -> None:
    first = next((line for way in EVERY_WAY for line in against(rank_sets, average, *way)), None)
    assert first, f"{average.name} survived {', '.join(f'{option} on {world.name}' for world, option in EVERY_WAY)}"


@pytest.mark.parametrize("average", WIRE_MUTANTS, ids=short)
def test_a_hook_that_sends_something_else_is_caught(rank_sets: RankSets, average: Average) -> None:
    first = next((line for world in WORLDS for line in ask(rank_sets, "wire:wire", average, world)), None)
    assert first, f"{average.name} survived {', '.join(world.name for world in WORLDS)}"


@pytest.mark.parametrize("average", [*SOUND, *WIRE_MUTANTS], ids=short)
def test_right_values_are_not_flagged(rank_sets: RankSets, average: Average) -> None:
    for way in SOME_WAYS:
        assert list(against(rank_sets, average, *way)) == []


@pytest.mark.parametrize("average", SOUND, ids=short)
def test_right_bytes_are_not_flagged(rank_sets: RankSets, average: Average) -> None:
    for world in WORLDS:
        assert ask(rank_sets, "wire:wire", average, world) == []


@pytest.mark.parametrize("average", AVERAGES.values(), ids=short)
def test_the_originals_are_not_flagged(rank_sets: RankSets, average: Average) -> None:
    """Once, here: perf/test_gradients.py has them under every option."""
    if reason := average.why_not_on_gloo():
        pytest.skip(reason)
    assert list(against(rank_sets, average, WORLDS[-1], "bucket_1kb")) == []
