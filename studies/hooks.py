"""The table of judged hooks in studies/hooks.md: verdict, bytes and error of each, over gloo on the CPU.

    python -m studies.hooks [HOOK ...]        # names, or PKG.MODULE:ATTR; default: all that run here

The verdict is that of some checks of ``pytest perf -k gradients``, on two and three ranks, which take seconds.
"""

import sys
from collections.abc import Iterator

from fixtures.gradients.cases import guarantee
from fixtures.gradients.fixtures import every_check
from fixtures.gradients.in_rank.linear import why_not
from fixtures.gradients.replay import path, violations
from fixtures.launch.faults import RankFailure
from fixtures.launch.protocol import CannotRun
from fixtures.launch.rank_sets import RankSet, RankSets
from fixtures.matrix.hook import PROMISES, Hook
from fixtures.matrix.hooks import HOOKS, find_hook
from fixtures.matrix.lookup import user_code
from fixtures.matrix.worlds import INTERCONNECTS, World
from fixtures.ranks.context import RankContext

_WORLDS = [World(backend="gloo", size=size) for size in (3, 2)]
_OPTIONS = ("default", "bucket_1kb")


def errors_and_bytes(ctx: RankContext, *, hook: str) -> dict[str, float]:
    """In a rank: the relative errors of a step and of the sum of 20, and the megabytes of a step, of the tiny ViT."""
    from studies.hook_errors import measured

    first, _, of_sum, megabytes = measured(ctx.rank, hook)
    return {"step": first, "sum": of_sum, "megabytes": megabytes}


def _checks(name: str, world: World) -> Iterator[tuple[str, dict[str, object]]]:
    """Of all checks of a hook, its gradients under two options or, with PowerSGD, in its first scenarios; its bytes."""
    of_scenarios = 0
    for check, arguments in every_check(name, world):
        if check == "hook_steps:check":
            if arguments["option"] in _OPTIONS:
                yield check, arguments
        elif "scenario" in arguments:
            of_scenarios += 1
            if of_scenarios <= len(_OPTIONS) and not PROMISES[find_hook(name).promise].any_gradient:
                yield check, arguments
        elif check == "wire:wire":
            yield check, arguments


def _row(ranks: RankSet, name: str, hook: Hook) -> list[str]:
    wrong, right = list[str](), 0
    for world in _WORLDS:
        for check, arguments in _checks(name, world):
            try:
                found = violations(ranks.run(world, path(check), arguments, doing=hook.name))
            except CannotRun:
                continue
            wrong += found[:1]
            right += not found
    pairs = _WORLDS[-1]
    (numbers, *_) = ranks.run(pairs, "studies.hooks:errors_and_bytes", {"hook": name}, doing=hook.name)
    try:
        ranks.run(World(backend="gloo", size=1), path("linear:check"), {"hook": name}, doing=hook.name)
        exact = guarantee(hook)
    except CannotRun as limit:
        exact = "not covered" if why_not(hook) else str(limit)
    verdict = f"wrong in {len(wrong)} of {len(wrong) + right}: {wrong[0]}" if wrong else f"right in {right} checks"
    return [
        f"`{hook.name}`",
        PROMISES[hook.promise].description,
        verdict,
        f"{numbers['megabytes']:.2f}",
        f"{numbers['step']:.2g}",
        f"{numbers['sum']:.2g}",
        exact,
    ]


def main(names: list[str]) -> None:
    """Print a row for each hook."""
    sets = RankSets(launches=1, size=3, on_gpu=False, rank_timeout_s=300)
    try:
        for name in names or list(HOOKS):
            hook = find_hook(name)
            if reason := hook.why_not_on_gloo():
                row = [f"`{hook.name}`", PROMISES[hook.promise].description, f"not run: {reason}", *[""] * 4]
            else:
                try:
                    row = _row(sets.of(INTERCONNECTS["native"], code=user_code(name))[0], name, hook)
                except RankFailure as failure:
                    said = " ".join(str(failure).split())[:200]
                    row = [f"`{hook.name}`", PROMISES[hook.promise].description, f"wrong: {said}", *[""] * 4]
            print("|", " | ".join(row), "|", flush=True)
    finally:
        sets.close()


if __name__ == "__main__":
    main(sys.argv[1:])
