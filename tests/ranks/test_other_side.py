"""Ranks of the other side of an A/B test have its variables from their first instruction on; ranks of this side not."""

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.launch.other_side import OtherSide
from fixtures.launch.own_sources import content_hash
from fixtures.launch.protocol import SourcesRequest
from fixtures.launch.rank_sets import DEFAULTS, RankSet, RankSets
from fixtures.matrix.worlds import INTERCONNECTS, World, parse_world
from fixtures.session.against_env import RESERVED
from tests.ranks import rank_faults
from tests.ranks.asking import called

VARIABLES = {"NCCL_MAX_CTAS": "4", "DDP_PERF_TESTS_ONLY_THERE": "yes"}


def variables_in(environment: str) -> dict[str, str]:
    """Name -> value, from variables that end in a null character."""
    return dict(variable.split("=", 1) for variable in environment.rstrip("\0").split("\0"))


def at_start(side: OtherSide | None) -> dict[str, str]:
    """The environment with which a rank of this side was started."""
    sets = RankSets(launches=1, size=1, on_gpu=False, rank_timeout_s=60, other_side=side)
    with closing(sets):
        (ranks,) = sets.of(INTERCONNECTS["native"])
        (environment,) = ranks.run(
            World(backend="gloo", size=1), "tests.ranks.rank_faults:at_start", {}, doing="reading the environment"
        )
    return variables_in(str(environment))


@pytest.mark.usefixtures("spawned_ranks")
def test_only_the_ranks_of_the_other_side_start_with_its_variables() -> None:
    own, other = at_start(None), at_start(OtherSide(variables=VARIABLES))
    assert {name: value for name, value in other.items() if name not in own} == VARIABLES
    assert own.keys() <= other.keys()
    # What the suite gives to ranks is refused by name.
    plain = subprocess.run(["env", "-0"], capture_output=True, text=True, check=True).stdout
    assert {name for name, _ in own.items() - variables_in(plain).items()} - DEFAULTS.keys() <= RESERVED


def test_each_rank_has_the_module_that_it_imported(ranks: RankSet) -> None:
    called(ranks, "rank_faults:at_start")
    file = Path(rank_faults.__file__)
    for loaded in ranks.ask(parse_world("2cpu"), SourcesRequest(), doing="sources"):
        assert loaded[str(file)] == content_hash(file)
        assert not any("site-packages" in name or "/fixtures/" in name for name in loaded)
