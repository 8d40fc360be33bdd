"""A plugin of pytest, next to fake ranks: hooks of tests/hooks_for_tests.py raise, die or hang in some checks."""

from typing import Any

from fixtures.launch.faults import Kind, RankFailure, RankFault
from fixtures.launch.protocol import TrainRequest
from fixtures.matrix.worlds import World
from tests import fake_ranks

RAISED = "raised HookError: hook {}, bucket 0 of 8 elements: it raised ArithmeticError: no such luck"
HUNG = "has made no progress for 120 s"


def failure(kind: Kind, message: str, doing: str = "") -> RankFailure:
    fault = RankFault(rank=0, kind=kind, step=-1, phase="", message=message, detail="  in a function\n")
    return RankFailure([fault], doing)


def check(world: World, rank: int, arguments: dict[str, Any]) -> list[str]:
    name = str(arguments.get("hook")).rpartition(":")[2]
    if name == "raises_for_float16" and (arguments.get("dtype"), arguments.get("scenario")) in (
        ("float16", None),
        (None, "other_dtypes"),
    ):
        raise failure("exception", RAISED.format(name).replace("elements:", "elements in float16:"))
    if name == "divides_twice" and arguments.get("kinds") == ["one_rank_only"]:
        raise failure("exception", RAISED.format(name))
    if name == "hangs_where_it_has_nothing_to_send" and arguments.get("kinds") == ["one_rank_only"]:
        raise failure("hang", HUNG)
    if name == "powersgd_rank1":
        raise failure("died", "died of SIGSEGV")
    return []


def train(world: World, rank: int, arguments: dict[str, Any]) -> Any:  # Any: a result
    if arguments["config"].endswith(":raises"):
        raise failure("exception", RAISED.format("raises"), f"launch 1 of raises on {world.name}")
    return fake_ranks.train(world, rank, arguments)


def pytest_configure() -> None:
    """For the rest of this process."""
    fake_ranks.ANSWERS[TrainRequest.function] = train
    fake_ranks.answer_checks(lambda one: check)
