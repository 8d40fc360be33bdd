"""What holds hooks, updates and buffers to their promises in the ways to run DDP catches what is broken on purpose."""

from collections.abc import Iterator
from importlib.metadata import version

import pytest

from fixtures.judge.again import violations
from fixtures.matrix.buffers import BufferWay
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.torch_version import torch_version
from fixtures.matrix.updates import Update
from fixtures.matrix.ways import WAYS, kinds_for
from fixtures.matrix.worlds import World
from fixtures.ranks.rank_sets import RankSets
from tests import way_mutants
from tests.way_mutants import AVERAGERS, BUFFERS, CAUGHT_BY, LOCAL_HOOKS, UPDATES

SOUND = way_mutants.sound.name
# Two ranks hold a group of fewer only as ranks on their own, so three.
THREE = World(backend="gloo", size=3)
TWO = World(backend="gloo", size=2)
ONE = World(backend="gloo", size=1)
# What counts its steps, so that it knows of each whether it was played.
COUNTING = "fixtures.matrix.hooks:POWERSGD_FULL_RANK"


@pytest.fixture(scope="module")
def rank_sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=60, say=lambda text: None)
    yield sets
    sets.close()


def ask(rank_sets: RankSets, world: World, function: str, /, **arguments: object) -> list[str]:
    """What is found wrong in any rank; a failure of the ranks is one of the test."""
    (ranks,) = rank_sets.of(INTERCONNECTS["native"])
    answers = ranks.run(world, f"fixtures.ranks.equivalence.{function}", arguments, doing=f"{function} {arguments}")
    return violations(answers)


def in_a_way(rank_sets: RankSets, hook: str, way: str, option: str, world: World | None = None) -> list[str]:
    """``world``: None for the larger one in which the suite plays it."""
    if WAYS[way].since > torch_version():
        pytest.skip(f"{way} needs a newer torch than {version('torch')}")
    kinds = kinds_for(hook, WAYS[way])
    world = world or (TWO if WAYS[way].pairs else THREE)
    return ask(rank_sets, world, "ways:check", hook=hook, way=way, option=option, kinds=kinds, seed=0)


@pytest.mark.parametrize("way", [name for name, way in WAYS.items() if way.dtypes == ("float32",)])
def test_a_machine_of_one_gpu_plays_every_way_with_one_rank(rank_sets: RankSets, way: str) -> None:
    if reason := WAYS[way].why_not(COUNTING, ONE, torch_version()):
        pytest.skip(reason)
    assert in_a_way(rank_sets, COUNTING, way, WAYS[way].options[0], ONE) == []


def path(thing: type | object) -> str:
    return f"tests.way_mutants:{thing.__name__}"  # type: ignore[union-attr]


@pytest.mark.parametrize("hook", CAUGHT_BY)
def test_a_hook_that_is_broken_in_a_way_is_caught(rank_sets: RankSets, hook: str) -> None:
    assert in_a_way(rank_sets, hook, *CAUGHT_BY[hook])


@pytest.mark.parametrize(("way", "option"), sorted(set(CAUGHT_BY.values())))
def test_a_sound_hook_is_not(rank_sets: RankSets, way: str, option: str) -> None:
    assert in_a_way(rank_sets, SOUND, way, option) == []


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.name.partition(":")[2])
def test_a_broken_update_is_caught(rank_sets: RankSets, update: Update) -> None:
    asked = {"optimizers": ["sgd_momentum"], "option": "bucket_1kb", "seed": 0}
    assert ask(rank_sets, THREE, "updates:check", update=update.name, **asked)


@pytest.mark.parametrize("hook", LOCAL_HOOKS, ids=lambda hook: hook.__name__)
def test_a_broken_local_hook_is_caught(rank_sets: RankSets, hook: object) -> None:
    asked = {"start": 2, "allreduce": True, "option": "bucket_1kb", "seed": 0}
    assert ask(rank_sets, THREE, "local_sgd:post_local", hook=path(hook), **asked)


@pytest.mark.parametrize("averager", AVERAGERS, ids=lambda averager: averager.__name__)
def test_a_broken_averager_is_caught(rank_sets: RankSets, averager: object) -> None:
    assert ask(rank_sets, THREE, "local_sgd:averager", averager=path(averager), period=2, warmup=1, seed=0)


@pytest.mark.parametrize("way", BUFFERS, ids=lambda way: way.name.partition(":")[2])
def test_broken_buffers_are_caught(rank_sets: RankSets, way: BufferWay) -> None:
    assert ask(rank_sets, THREE, "buffers:follow", way=way.name)
