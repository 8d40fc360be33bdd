"""Does torch still have its known bugs, and do the workarounds work?   pytest perf -k gradients_upstream

Each bug is a strict xfail in the versions that have it: a red XPASS(strict) means that it has been fixed upstream.
"""

import re

import pytest

from fixtures.extras.torch_bugs.plugin import BugShows, UpstreamRanks, expected, wrong_results
from fixtures.extras.torch_bugs.upstream_bugs import UPSTREAM_BUGS, UpstreamBug, on_gpus_only
from fixtures.launch.faults import RankFailure
from fixtures.session.launches import fail_test_on_rank_error

pytestmark = [pytest.mark.on_request(*UPSTREAM_BUGS), pytest.mark.unless(reason=on_gpus_only)]


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
