"""The gradient checks catch every hook with a planted bug and pass every sound one."""

from collections.abc import Iterator
from itertools import cycle, product

import pytest

from fixtures.gradients.cases import SHAPES, kinds_for
from fixtures.gradients.fixtures import every_check
from fixtures.gradients.replay import path
from fixtures.launch.faults import RankFailure
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import Hook
from fixtures.matrix.hooks import HOOKS
from fixtures.matrix.lookup import load_any
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.mutants import hooks as mutants
from tests.mutants import powersgd as powersgd_mutants
from tests.mutants import promises  # noqa: F401  # its hooks are in CAUGHT_BY and SOUND_IN
from tests.mutants.hooks import MUTANTS, SOUND, WIRE_MUTANTS
from tests.mutants.side_effects import ASKED, CAUGHT_BY, RANKS, SOUND_IN

ALONE = World(backend="gloo", size=1)
WORLDS = [World(backend="gloo", size=size) for size in (3, 2)]
OPTIONS = ("bucket_1kb", "default")
EVERY_CASE = list(product(reversed(WORLDS), OPTIONS))  # two ranks catch most
SOME_CASES = list(zip(WORLDS, OPTIONS, strict=True))
# Case -> check and arguments.
POWERSGD: dict[str, tuple[str, dict[str, object]]] = {
    "follow": ("powersgd:follow", {"shapes": [(60, 50), (50, 60), (33,)]}),
    "full_rank": (
        "powersgd:follow",
        {
            "shapes": [(60, 24), (24, 60)],
            "changes": {"matrix_approximation_rank": 24, "min_compression_rate": 0, "use_error_feedback": False},
        },
    ),
    "converge": ("powersgd:converge", {"shapes": [(60, 50), (40, 64)], "changes": {"use_error_feedback": False}}),
    "vanish": ("powersgd:vanish", {"shapes": [(60, 50), (33,)]}),
}
RANK_TIMEOUT_S, SHORT_RANK_TIMEOUT_S = 60.0, 3.0


def ask(three_ranks: RankSets, check: str, hook: Hook, world: World, **arguments: object) -> list[str]:
    """The violations that a check finds in this hook; what the ranks raise, or that they fail, counts as one."""
    (ranks,) = three_ranks.of(INTERCONNECTS["native"])
    hangs = hook == mutants.rank_1_skips_a_collective
    ranks.rank_timeout_s = SHORT_RANK_TIMEOUT_S if hangs else RANK_TIMEOUT_S
    asked = {"function": path(check), "arguments": {**arguments, "hook": hook.name}}
    doing = f"{check} of {hook.name} on {world.name}"
    try:
        answers = ranks.run(world, "tests.ranks.rank_faults:tried", asked, doing=doing)
    except RankFailure as failure:
        return [str(failure)]  # it begins with ``doing``
    if errors := [answer["error"] for answer in answers if answer["error"] is not None]:
        ranks.run(ALONE, "tests.ranks.rank_faults:pid", {}, doing="leaving the group that it was raised in")
        return [f"{doing}: raised {error}" for error in errors]
    return [f"{doing}: {line}" for answer in answers for line in answer["value"]]


def implied(three_ranks: RankSets, check: str, hook: Hook) -> list[str]:
    """The violations that a check finds with the arguments that it has in ``pytest perf``, in several buckets."""
    world = ALONE if RANKS[hook.name] == 1 else WORLDS[-1]
    every = every_check(hook.name, world)
    asked = next(given for one, given in every if one == check and given.get("option") in (None, "bucket_1kb"))
    del asked["hook"]
    return ask(three_ranks, check, hook, world, **{**asked, **ASKED.get(hook.name, {})})


def against(three_ranks: RankSets, hook: Hook, world: World, option: str) -> Iterator[str]:
    """The violations that ``perf/test_gradients.py`` would find, one kind of gradient after the other."""
    kinds = kinds_for(hook, option)
    for kind, shapes, steps in [*((kind, SHAPES, 3) for kind in kinds), (kinds[0], SHAPES[:3], 20)]:
        arguments = {"kinds": [kind], "shapes": [list(shape) for shape in shapes], "steps": steps}
        yield from ask(three_ranks, "hook_steps:check", hook, world, option=option, **arguments)


def of_powersgd(three_ranks: RankSets, hook: Hook, case: str) -> list[str]:
    check, arguments = POWERSGD[case]
    return ask(three_ranks, check, hook, WORLDS[-1], **arguments)


def short(named: Hook | World | tuple[World, str] | str) -> str:
    """The name without its module."""
    if isinstance(named, tuple):
        return f"{named[0].name}-{named[1]}"
    name = named.name if isinstance(named, Hook | World) else named
    return name.removesuffix(":check").rpartition(":")[2]


@pytest.mark.parametrize("hook", MUTANTS, ids=short)
def test_a_broken_hook_is_caught(three_ranks: RankSets, hook: Hook) -> None:
    first = next((line for case in EVERY_CASE for line in against(three_ranks, hook, *case)), None)
    assert first, f"{hook.name} survived {', '.join(f'{option} on {world.name}' for world, option in EVERY_CASE)}"
    assert hook == mutants.rank_1_skips_a_collective or "has made no progress" not in first


@pytest.mark.parametrize(
    ("hook", "cause"),
    [
        (mutants.swaps_buckets_of_equal_size, "the mean of parameter 12 is in parameter 13: buckets mixed up? "),
        (mutants.small_buckets_stay_local, "the rank's own gradient is in parameters 9, 10, 11: not exchanged? "),
    ],
)
def test_what_a_wrong_bucket_holds_is_named(three_ranks: RankSets, hook: Hook, cause: str) -> None:
    lines = ask(three_ranks, "hook_steps:check", hook, WORLDS[-1], option="bucket_1kb", kinds=["mixed"])
    assert any(cause in line for line in lines)
    assert not any("error inf" in line or "inf times" in line for line in lines)


def test_a_hook_that_is_sound_in_float32_only_is_caught_in_float64(three_ranks: RankSets) -> None:
    arguments = {"option": "default", "shapes": [[8, 4]], "kinds": ["normal"], "dtype": "float64"}
    assert ask(three_ranks, "hook_steps:check", mutants.fp32_whatever_the_dtype, WORLDS[-1], **arguments)


@pytest.mark.parametrize("world", WORLDS, ids=short)
def test_a_hook_may_divide_in_a_dtype_that_is_finer_than_the_wires(three_ranks: RankSets, world: World) -> None:
    arguments = {"option": "default", "shapes": [[60, 50]], "kinds": ["subnormal", "normal"], "dtype": "float16"}
    (hook,) = (hook for hook in SOUND if short(hook) == "divides_before_it_casts")
    assert ask(three_ranks, "hook_steps:check", hook, world, **arguments) == []


@pytest.mark.parametrize("hook", WIRE_MUTANTS, ids=short)
def test_a_hook_that_sends_something_else_is_caught(three_ranks: RankSets, hook: Hook) -> None:
    first = next((line for world in reversed(WORLDS) for line in ask(three_ranks, "wire:wire", hook, world)), None)
    assert first, f"{hook.name} survived {', '.join(world.name for world in WORLDS)}"


@pytest.mark.parametrize(("hook", "case"), list(zip([*SOUND, *WIRE_MUTANTS], cycle(SOME_CASES))), ids=short)
def test_right_values_are_not_flagged(three_ranks: RankSets, hook: Hook, case: tuple[World, str]) -> None:
    assert list(against(three_ranks, hook, *case)) == []


@pytest.mark.parametrize(("hook", "world"), list(zip(SOUND, cycle(WORLDS))), ids=short)
def test_right_bytes_are_not_flagged(three_ranks: RankSets, hook: Hook, world: World) -> None:
    assert ask(three_ranks, "wire:wire", hook, world) == []


@pytest.mark.parametrize(
    ("hook", "case", "caught"),
    [
        *((hook, case, True) for hook, case in powersgd_mutants.CAUGHT_BY),
        *((powersgd_mutants.SOUND, case, False) for case in POWERSGD),
    ],
    ids=lambda value: short(value) if isinstance(value, Hook | str) else None,
)
def test_a_broken_powersgd_is_caught_and_a_sound_one_is_not(
    three_ranks: RankSets, hook: Hook, case: str, caught: bool
) -> None:
    assert bool(of_powersgd(three_ranks, hook, case)) is caught


@pytest.mark.parametrize("hook", [hook for hook in HOOKS.values() if hook.promise != "low_rank"], ids=short)
def test_the_originals_are_not_flagged(three_ranks: RankSets, hook: Hook) -> None:
    """Under one option; perf/test_gradients.py has them under every one."""
    if reason := hook.why_not_on_gloo():
        pytest.skip(reason)
    assert list(against(three_ranks, hook, WORLDS[-1], "bucket_1kb")) == []


@pytest.mark.parametrize("name", CAUGHT_BY, ids=short)
def test_a_hook_that_does_something_besides_or_later_is_caught(three_ranks: RankSets, name: str) -> None:
    assert implied(three_ranks, CAUGHT_BY[name], load_any(name))


@pytest.mark.parametrize(("hook", "check"), SOUND_IN, ids=short)
def test_an_unusual_hook_is_not(three_ranks: RankSets, hook: Hook, check: str) -> None:
    assert implied(three_ranks, check, hook) == []
