"""Does torch still have its known bugs, and do the workarounds work?   pytest perf -k gradients_upstream

Each bug is a strict xfail in the versions that have it: a red XPASS(strict) means that it has been fixed upstream.
"""

import re
from collections.abc import Callable

import pytest

from fixtures.extras.torch_bugs.upstream_bugs import MOST_RANKS, UPSTREAM_BUGS, UpstreamBug, on_gpus_only
from fixtures.launch.faults import RankFailure
from fixtures.launch.rank_set import RankSet
from fixtures.launch.rank_sets import RankSets
from fixtures.matrix.hook import torch_version
from fixtures.matrix.worlds import Backend, World
from fixtures.session.launches import fail_test_on_rank_error
from fixtures.session.settings import SETTINGS

pytestmark = [pytest.mark.on_request(*UPSTREAM_BUGS), pytest.mark.unless(reason=on_gpus_only)]

# Backend -> the ranks for a bug: over gloo from two sets; over NCCL if there are enough GPUs.
UpstreamRanks = dict[Backend, Callable[[UpstreamBug], RankSet]]


class BugShows(AssertionError):
    """The bug shows as known. Other errors are failures of their own."""


@pytest.fixture(scope="module")
def upstream_ranks(
    request: pytest.FixtureRequest, gradient_ranks: RankSets, expendable_ranks: Callable[[], list[RankSet]]
) -> UpstreamRanks:
    """Ranks over gloo on the CPU of every machine, where most bugs show, and over NCCL if there are GPUs."""
    settings = request.config.stash[SETTINGS]

    def on_cpu(bug: UpstreamBug) -> RankSet:
        plain, hanging = expendable_ranks()
        return hanging if bug.ends == "hang" else plain

    ranks: UpstreamRanks = {"gloo": on_cpu}
    if len(settings.gpus) >= MOST_RANKS:
        ranks["nccl"] = lambda bug: gradient_ranks.of(settings.first_interconnect)[0]
    return ranks


def wrong_results(
    upstream_ranks: UpstreamRanks, bug: UpstreamBug, *, avoid: bool, silence_s: float | None = None
) -> list[str]:
    """A line for each wrong result on a rank; raises RankFailure."""
    ranks = upstream_ranks[bug.backend](bug)
    rank_timeout_s = ranks.rank_timeout_s
    ranks.rank_timeout_s = silence_s or rank_timeout_s
    try:
        results = ranks.run(
            World(backend=bug.backend, size=bug.ranks),
            f"fixtures.extras.torch_bugs.reproducers.{bug.reproducer}",
            {"avoid": avoid},
            doing=f"{bug.name}{', avoided' if avoid else ''}",
        )
    finally:
        ranks.rank_timeout_s = rank_timeout_s
    return [f"rank {rank}: {line}" for rank, lines in enumerate(results) for line in lines]


def expected(bug: UpstreamBug) -> list[pytest.MarkDecorator]:
    """The strict xfail of a bug that this torch has."""
    if not bug.there(torch_version()):
        return []
    reason = bug.goes_wrong + (f" (pytorch/pytorch#{bug.issue})" if bug.issue else "")
    return [pytest.mark.xfail(raises=BugShows, strict=True, reason=reason)]


@pytest.mark.parametrize("bug", UPSTREAM_BUGS.values(), ids=UPSTREAM_BUGS)
def test_gradients_upstream_avoided(upstream_ranks: UpstreamRanks, bug: UpstreamBug) -> None:
    with fail_test_on_rank_error():
        wrong = wrong_results(upstream_ranks, bug, avoid=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name, marks=expected(bug)) for bug in UPSTREAM_BUGS.values()])
def test_gradients_upstream(upstream_ranks: UpstreamRanks, bug: UpstreamBug) -> None:
    if bug.silence_s is not None:  # imports by the first DDP are silent too, so do them before
        wrong_results(upstream_ranks, bug, avoid=True)
    try:
        wrong = wrong_results(upstream_ranks, bug, avoid=False, silence_s=bug.silence_s)
    except RankFailure as failure:
        if bug.says is None or not re.search(bug.says, str(failure)):
            raise pytest.fail.Exception(str(failure), pytrace=False) from None
        raise BugShows(str(failure)) from None
    if wrong:
        raise BugShows("\n".join(wrong))
