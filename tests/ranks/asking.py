"""What tests ask of live ranks."""

from typing import Any

from fixtures.launch.protocol import TrainRequest, TrainResult
from fixtures.launch.rank_sets import RankSet
from fixtures.matrix.worlds import parse_world


# Any: fields of a request, and of a function its arguments and its result.
def trained(
    ranks: RankSet,
    config: str,
    *,
    workload: str = "vit_tiny",
    world: str = "2cpu",
    steps: int = 1,
    warmup: int = 4,
    **more: Any,
) -> list[TrainResult]:
    """The answer of each rank to a launch. workload: with a colon in front, of tests/workloads_for_tests.py."""
    reference = f"tests.workloads_for_tests{workload}" if workload.startswith(":") else workload
    request = TrainRequest(workload=reference, config=config, world=world, steps=steps, warmup=warmup, **more)
    return ranks.ask(parse_world(world), request, doing=f"{config} of {workload}")


def called(ranks: RankSet, function: str, /, *, in_world: str = "2cpu", **arguments: Any) -> list[Any]:
    """The answer of each rank to a function of a module in this folder, ``MODULE:FUNCTION``."""
    return ranks.run(parse_world(in_world), f"tests.ranks.{function}", arguments, doing=function)
