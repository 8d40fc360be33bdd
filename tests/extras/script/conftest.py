"""Ranks that run scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fixtures.extras.script.request import ScriptRequest, ScriptResult
from fixtures.launch.rank_set import SCRIPT
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.interconnects import INTERCONNECTS
from fixtures.matrix.worlds import parse_world

SCRIPTS = Path(__file__).parent / "scripts"
STEPS, WARMUP = 6, 4

# Runs a script under a config and returns the results of its ranks.
Run = Callable[..., list[ScriptResult]]


@pytest.fixture(scope="module")
def sets() -> Iterator[RankSets]:
    sets = RankSets(launches=1, size=2, on_gpu=False, rank_timeout_s=60)
    yield sets
    sets.close()


@pytest.fixture
def run(sets: RankSets) -> Run:
    def run(
        script: Path, config: str = "as_written", world: str = "2cpu", *, rank_timeout_s: float = 60, **more: Any
    ) -> list[ScriptResult]:
        (ranks,) = sets.of(INTERCONNECTS["native"], code=frozenset({SCRIPT}))
        ranks.rank_timeout_s = rank_timeout_s
        request = ScriptRequest(
            workload="x", config=config, world=world, path=str(script), steps=STEPS, warmup=WARMUP, **more
        )
        try:
            return [cast(ScriptResult, one) for one in ranks.ask(parse_world(world), request, doing=config)]
        finally:
            ranks.close(patience_s=0)

    return run
