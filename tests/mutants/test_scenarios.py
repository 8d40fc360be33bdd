"""The scenario checks catch hooks, updates and buffer scenarios with planted bugs and pass sound ones."""

from importlib.metadata import version

import pytest

from fixtures.gradients.cases import SCENARIOS
from fixtures.gradients.replay import path as path_of
from fixtures.gradients.replay import violations
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import torch_version
from fixtures.matrix.worlds import INTERCONNECTS, World
from tests.mutants.scenarios import AVERAGERS, BUFFERS, CAUGHT_BY, LOCAL_HOOKS, UPDATES, sound

SOUND = sound.name
# Three, since two ranks have no smaller group than one rank each.
THREE = World(backend="gloo", size=3)
ONE = World(backend="gloo", size=1)
# PowerSGD counts its steps, so a step without the hook is noticed.
COUNTING = "fixtures.matrix.hooks:POWERSGD_FULL_RANK"


def ask(three_ranks: RankSets, world: World, asked: str, /, **arguments: object) -> list[str]:
    """The violations that a check finds in any rank; a failure of the ranks fails the test."""
    (ranks,) = three_ranks.of(INTERCONNECTS["native"])
    return violations(ranks.run(world, path_of(asked), arguments, doing=f"{asked} {arguments}"))


def in_scenario(three_ranks: RankSets, hook: str, scenario: str, option: str, world: World | None = None) -> list[str]:
    """world: None: the largest in which the suite runs the scenario on a CPU."""
    if SCENARIOS[scenario].since > torch_version():
        pytest.skip(f"{scenario} needs a newer torch than {version('torch')}")
    world = world or (World(backend="gloo", size=2) if SCENARIOS[scenario].pairs else THREE)
    return ask(three_ranks, world, "scenarios:check", hook=hook, scenario=scenario, option=option)


@pytest.mark.parametrize("scenario", [name for name, scenario in SCENARIOS.items() if scenario.dtypes == ("float32",)])
def test_a_machine_of_one_gpu_plays_every_way_with_one_rank(three_ranks: RankSets, scenario: str) -> None:
    entry = SCENARIOS[scenario]
    if reason := entry.why_not(COUNTING, ONE, torch_version()):
        pytest.skip(reason)
    assert in_scenario(three_ranks, COUNTING, scenario, entry.options[0], ONE) == []


def path(thing: type | object) -> str:
    return f"tests.mutants.scenarios:{thing.__name__}"  # type: ignore[union-attr]


@pytest.mark.parametrize("hook", CAUGHT_BY)
def test_a_hook_that_is_broken_in_a_way_is_caught(three_ranks: RankSets, hook: str) -> None:
    assert in_scenario(three_ranks, hook, *CAUGHT_BY[hook])


@pytest.mark.parametrize(("scenario", "option"), sorted(set(CAUGHT_BY.values())))
def test_a_sound_hook_is_not(three_ranks: RankSets, scenario: str, option: str) -> None:
    assert in_scenario(three_ranks, SOUND, scenario, option) == []


BROKEN: dict[str, tuple[str, dict[str, object]]] = {
    **{
        update.name: (
            "parameters:updates",
            {"update": update.name, "optimizers": ["sgd_momentum"], "option": "bucket_1kb"},
        )
        for update in UPDATES
    },
    **{
        path(hook): (
            "scenarios:post_local",
            {"hook": path(hook), "start": 2, "allreduce": True, "option": "bucket_1kb"},
        )
        for hook in LOCAL_HOOKS
    },
    **{path(one): ("parameters:averages", {"averager": path(one), "period": 2, "warmup": 1}) for one in AVERAGERS},
    **{scenario.name: ("parameters:buffers", {"scenario": scenario.name}) for scenario in BUFFERS},
}


@pytest.mark.parametrize("name", BROKEN, ids=lambda name: name.partition(":")[2])
def test_a_broken_update_local_hook_averager_or_buffer_is_caught(three_ranks: RankSets, name: str) -> None:
    check, arguments = BROKEN[name]
    assert ask(three_ranks, THREE, check, **arguments)
