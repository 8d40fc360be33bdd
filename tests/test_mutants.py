"""The checks of gradients catch every hook that is broken on purpose, and none that is sound."""

from collections.abc import Iterator
from itertools import product

import pytest

from fixtures.judge.training import EVERY, MOST_EXCESS_PERCENT, SEEDS, STEPS, Effect, effect
from fixtures.matrix.gradients import SHAPES, kinds_for
from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import HOOKS, find_hook
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import World
from fixtures.ranks.failure import RankFailure
from fixtures.ranks.rank_sets import RankSets
from tests import mutants, powersgd_mutants
from tests.mutants import MUTANTS, SOUND, WIRE_MUTANTS

WORLDS = [World(backend="gloo", size=size) for size in (3, 2)]
OPTIONS = ("bucket_1kb", "default")
EVERY_WAY = list(product(WORLDS, OPTIONS))
SOME_WAYS = list(zip(WORLDS, OPTIONS, strict=True))
# A case of each function that holds PowerSGD to its promises.
POWERSGD: dict[str, dict[str, object]] = {
    "follow": {"shapes": [(60, 50), (50, 60), (33,)], "changes": {}},
    "recover": {
        "shapes": [(60, 24), (24, 60)],
        "changes": {"matrix_approximation_rank": 24, "min_compression_rate": 0, "use_error_feedback": False},
    },
    "converge": {"shapes": [(60, 50), (40, 64)], "changes": {"use_error_feedback": False}},
    "relate": {"shapes": [(60, 48)], "relation": "scaled_down", "changes": {"orthogonalization_epsilon": 0}},
    "vanish": {"shapes": [(60, 50), (33,)], "changes": {}},
}
PATIENCE_S, LITTLE_PATIENCE_S = 60.0, 3.0


@pytest.fixture(scope="module")
def rank_sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=PATIENCE_S, say=lambda text: None)
    yield sets
    sets.close()


def ask(rank_sets: RankSets, function: str, hook: Hook, world: World, **arguments: object) -> list[str]:
    """What a check has to say against this hook; a failure of the ranks counts as well."""
    (ranks,) = rank_sets.of(INTERCONNECTS["native"])
    ranks.rank_timeout_s = LITTLE_PATIENCE_S if hook == mutants.rank_1_skips_a_collective else PATIENCE_S
    arguments["hook"] = hook.name
    doing = f"{function} of {hook.name} on {world.name}"
    try:
        answers = ranks.run(world, f"fixtures.ranks.equivalence.{function}", arguments, doing=doing)
    except RankFailure as failure:
        return [str(failure)]  # which begins with ``doing``
    return [f"{doing}: {line}" for answer in answers for line in answer["violations"]]


def against(rank_sets: RankSets, hook: Hook, world: World, option: str) -> Iterator[str]:
    """What ``perf/test_gradients.py`` would say, one kind of gradient after the other."""
    kinds = kinds_for(eight_bits=hook.eight_bits, option=option)
    for kind, shapes, steps in [*((kind, SHAPES, 3) for kind in kinds), (kinds[0], SHAPES[:3], 20)]:
        arguments = {"kinds": [kind], "shapes": [list(shape) for shape in shapes], "steps": steps, "seed": 0}
        yield from ask(rank_sets, "check:check", hook, world, option=option, **arguments)


def of_powersgd(rank_sets: RankSets, hook: Hook, function: str) -> list[str]:
    asked: dict[str, object] = {"option": "default", "seed": 0, **POWERSGD[function]}
    return ask(rank_sets, f"powersgd:{function}", hook, WORLDS[-1], **asked)


def trained(rank_sets: RankSets, hook: str) -> Effect:
    """What ``perf/test_training.py`` would find."""
    (ranks,) = rank_sets.of(INTERCONNECTS["native"])
    two = WORLDS[-1]

    def curve(hook: str, seed: int) -> list[float]:
        asked = {"hook": hook, "world": two.name, "seed": seed, "steps": STEPS, "every": EVERY}
        answers = ranks.run(two, "fixtures.ranks.equivalence.small_problem:train", asked, doing=hook)
        losses: list[float] = answers[0]["losses"]
        return losses

    curves, reference = ([curve(one, seed) for seed in SEEDS] for one in (hook, "none"))
    return effect(short(find_hook(hook)), two.name, curves, reference)


def short(hook: Hook) -> str:
    return hook.name.rpartition(":")[2]


@pytest.mark.parametrize("hook", MUTANTS, ids=short)
def test_a_broken_hook_is_caught(rank_sets: RankSets, hook: Hook) -> None:
    first = next((line for way in EVERY_WAY for line in against(rank_sets, hook, *way)), None)
    assert first, f"{hook.name} survived {', '.join(f'{option} on {world.name}' for world, option in EVERY_WAY)}"


def test_a_hook_that_is_sound_in_float32_only_is_caught_in_float64(rank_sets: RankSets) -> None:
    asked = {"option": "default", "shapes": [[8, 4]], "kinds": ["normal"], "seed": 0, "dtype": "float64"}
    assert ask(rank_sets, "check:check", mutants.fp32_whatever_the_dtype, WORLDS[-1], **asked)


@pytest.mark.parametrize("hook", WIRE_MUTANTS, ids=short)
def test_a_hook_that_sends_something_else_is_caught(rank_sets: RankSets, hook: Hook) -> None:
    first = next((line for world in WORLDS for line in ask(rank_sets, "wire:wire", hook, world)), None)
    assert first, f"{hook.name} survived {', '.join(world.name for world in WORLDS)}"


@pytest.mark.parametrize("hook", [*SOUND, *WIRE_MUTANTS], ids=short)
def test_right_values_are_not_flagged(rank_sets: RankSets, hook: Hook) -> None:
    for way in SOME_WAYS:
        assert list(against(rank_sets, hook, *way)) == []


@pytest.mark.parametrize("hook", SOUND, ids=short)
def test_right_bytes_are_not_flagged(rank_sets: RankSets, hook: Hook) -> None:
    for world in WORLDS:
        assert ask(rank_sets, "wire:wire", hook, world) == []


@pytest.mark.parametrize(
    ("hook", "function"), powersgd_mutants.CAUGHT_BY, ids=lambda of: getattr(of, "name", of).rpartition(":")[2]
)
def test_a_broken_powersgd_is_caught(rank_sets: RankSets, hook: Hook, function: str) -> None:
    assert of_powersgd(rank_sets, hook, function)


@pytest.mark.parametrize("function", POWERSGD)
def test_a_sound_powersgd_is_not(rank_sets: RankSets, function: str) -> None:
    assert of_powersgd(rank_sets, powersgd_mutants.SOUND, function) == []


def test_training_shows_what_keeps_a_third(rank_sets: RankSets) -> None:
    assert trained(rank_sets, mutants.bf16_keeps_a_third.name).least_excess_percent > MOST_EXCESS_PERCENT


@pytest.mark.parametrize("hook", [hook for hook in HOOKS.values() if hook.promise != "low_rank"], ids=short)
def test_the_originals_are_not_flagged(rank_sets: RankSets, hook: Hook) -> None:
    """Once, here: perf/test_gradients.py has them under every option."""
    if reason := hook.why_not_on_gloo():
        pytest.skip(reason)
    assert list(against(rank_sets, hook, WORLDS[-1], "bucket_1kb")) == []
