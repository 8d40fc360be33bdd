"""Code inside a rank for test_linear.py: results of a hook in processes and in threads."""

import hashlib
from dataclasses import replace

from torch import distributed

from fixtures.gradients.in_rank.linear import answered_apart, in_threads, results
from fixtures.ranks.context import RankContext


def digests(ctx: RankContext, *, hook: str) -> list[str]:
    """Of the results of this rank; rank 0 adds those of as many ranks in threads."""
    ranks = distributed.get_world_size()
    own = [_digest(hook, ctx)]
    return own if ctx.rank else [*own, *answered_apart(lambda: _of_threads(hook, ctx, ranks), ctx, "threads").split()]


def _of_threads(hook: str, ctx: RankContext, ranks: int) -> str:
    found = [""] * ranks

    def work(rank: int) -> None:
        found[rank] = _digest(hook, replace(ctx, rank=rank))

    in_threads(ranks, work)
    return " ".join(found)


def _digest(hook: str, ctx: RankContext) -> str:
    of_all = [(step, out.tolist()) for step, out, _ in results(hook, ctx)]
    return hashlib.blake2b(repr(of_all).encode(), digest_size=8).hexdigest()
