"""Are torch's known bugs still there, and does what we advise instead work?   pytest perf -k gradients_upstream

Each bug is a strict xfail in the versions that have it: a red XPASS(strict) is an upstream fix.
"""

import re
from collections.abc import Callable

import pytest

from fixtures.judge.launching import failing
from fixtures.judge.settings import SETTINGS
from fixtures.matrix.torch_version import torch_version
from fixtures.matrix.upstream_bugs import MOST_RANKS, UPSTREAM_BUGS, UpstreamBug
from fixtures.matrix.worlds import Backend, World
from fixtures.ranks.failure import RankFailure
from fixtures.ranks.rank_set import RankSet
from fixtures.ranks.rank_sets import RankSets

# Live ranks over NCCL where there are GPUs enough; over gloo two sets.
UpstreamRanks = dict[Backend, Callable[[UpstreamBug], RankSet]]


class BugShows(AssertionError):
    """The bug did what it is known for. Whatever else goes wrong is a failure of its own."""


@pytest.fixture(scope="module")
def upstream_ranks(
    request: pytest.FixtureRequest, gradient_ranks: RankSets, expendable_ranks: Callable[[], list[RankSet]]
) -> UpstreamRanks:
    """Ranks on the CPU over gloo on every machine, where most bugs were seen, and over NCCL where there are GPUs."""
    settings = request.config.stash[SETTINGS]

    def on_cpu(bug: UpstreamBug) -> RankSet:
        plain, hanging = expendable_ranks()
        return hanging if bug.ends == "hang" else plain

    every: UpstreamRanks = {"gloo": on_cpu}
    if len(settings.gpus) >= MOST_RANKS:
        every["nccl"] = lambda bug: gradient_ranks.of(settings.first_interconnect)[0]
    return every


def what_is_wrong(every: UpstreamRanks, bug: UpstreamBug, *, avoid: bool, silence_s: float | None = None) -> list[str]:
    """A line for each thing that a rank found wrong; raises RankFailure."""
    if bug.backend not in every:
        pytest.skip(f"{bug.name} is seen over {bug.backend} only, which needs {bug.ranks} GPUs")
    ranks = every[bug.backend](bug)
    patience_s = ranks.rank_timeout_s
    ranks.rank_timeout_s = silence_s or patience_s
    try:
        answers = ranks.run(
            World(backend=bug.backend, size=bug.ranks),
            f"fixtures.ranks.equivalence.upstream.{bug.reproducer}",
            {"avoid": avoid},
            doing=f"{bug.name}{', avoided' if avoid else ''}",
        )
    finally:
        ranks.rank_timeout_s = patience_s
    return [f"rank {rank}: {line}" for rank, lines in enumerate(answers) for line in lines]


def expected(bug: UpstreamBug) -> list[pytest.MarkDecorator]:
    """Its strict xfail, where this torch has it."""
    if not bug.there(torch_version()):
        return []
    reason = bug.goes_wrong + (f" (pytorch/pytorch#{bug.issue})" if bug.issue else "")
    return [pytest.mark.xfail(raises=BugShows, strict=True, reason=reason)]


@pytest.mark.parametrize("bug", UPSTREAM_BUGS.values(), ids=UPSTREAM_BUGS)
def test_gradients_upstream_avoided(upstream_ranks: UpstreamRanks, bug: UpstreamBug) -> None:
    with failing():
        wrong = what_is_wrong(upstream_ranks, bug, avoid=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name, marks=expected(bug)) for bug in UPSTREAM_BUGS.values()])
def test_gradients_upstream(upstream_ranks: UpstreamRanks, bug: UpstreamBug) -> None:
    if bug.silence_s is not None:  # what a first DDP imports is silent too
        what_is_wrong(upstream_ranks, bug, avoid=True)
    try:
        wrong = what_is_wrong(upstream_ranks, bug, avoid=False, silence_s=bug.silence_s)
    except RankFailure as failure:
        if bug.says is None or not re.search(bug.says, str(failure)):
            raise pytest.fail.Exception(str(failure), pytrace=False) from None
        raise BugShows(str(failure)) from None
    if wrong:
        raise BugShows("\n".join(wrong))
