"""Hooks that add gradients and multiply them, some wrongly."""

import os

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # public, but not in __all__
from torch.futures import Future

from tests.builders import known
from tests.hooks_for_tests import done, mean


def padded(bucket: GradBucket) -> Tensor:
    flat, ranks = bucket.buffer(), distributed.get_world_size()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % ranks))


def in_shares(state: None, bucket: GradBucket) -> Future[Tensor]:
    """Each rank sums one share, in a callback."""
    whole, ranks, size = padded(bucket), distributed.get_world_size(), bucket.buffer().numel()
    share = torch.empty(whole.numel() // ranks)
    known(distributed.reduce_scatter(share, list(whole.chunk(ranks)), async_op=True)).wait()
    out = [torch.empty_like(share) for _ in range(ranks)]
    distributed.all_gather(out, share / ranks)
    return done(torch.cat(out)[:size].clone())


def by_all_to_all(state: None, bucket: GradBucket) -> Future[Tensor]:
    whole, ranks = padded(bucket), distributed.get_world_size()
    theirs = torch.empty_like(whole)
    distributed.all_to_all_single(theirs, whole)
    share = theirs.view(ranks, -1).sum(0) / ranks
    out = torch.empty_like(whole)
    distributed.all_gather(list(out.chunk(ranks)), share)
    return done(out[: bucket.buffer().numel()].clone())


def through_futures(state: None, bucket: GradBucket) -> Future[Tensor]:
    work = known(distributed.all_reduce(bucket.buffer(), async_op=True))
    halved = work.get_future().then(lambda future: future.value()[0] / distributed.get_world_size())
    return halved.then(lambda future: future.value() + 0.0)


def from_rank_0(state: None, bucket: GradBucket) -> Future[Tensor]:
    """Rank 0 gathers, adds and broadcasts."""
    ranks, flat = distributed.get_world_size(), bucket.buffer()
    gathered = [torch.empty_like(flat) for _ in range(ranks)] if distributed.get_rank() == 0 else None
    distributed.gather(flat, gathered)
    if gathered is not None:
        flat = torch.stack(gathered).sum(0) / ranks
    distributed.broadcast(flat, 0)
    return done(flat)


def right_up_to_8_ranks(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(mean(bucket.buffer()) * (1 if distributed.get_world_size() <= 8 else 2))


def wrong_in_small_buckets(state: None, bucket: GradBucket) -> Future[Tensor]:
    return done(bucket.buffer() if bucket.buffer().numel() < 10 else mean(bucket.buffer()))


def forgets_a_share(state: None, bucket: GradBucket) -> Future[Tensor]:
    """The last elements, if the ranks do not divide their number."""
    flat, ranks = bucket.buffer(), distributed.get_world_size()
    whole = flat.numel() // ranks * ranks
    flat[:whole] = mean(flat[:whole].clone())
    return done(flat)


def ends_its_process(state: None, bucket: GradBucket) -> Future[Tensor]:
    os._exit(3)


_CALLS: list[int] = []


def shares_what_it_keeps(state: None, bucket: GradBucket) -> Future[Tensor]:
    """Sound in processes; in threads the ranks share a global."""
    _CALLS.append(distributed.get_rank())
    if set(_CALLS) != {distributed.get_rank()}:
        raise ArithmeticError("another rank was here")
    return done(mean(bucket.buffer()))
