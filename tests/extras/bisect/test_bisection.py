"""Bisection with noise: the right commit in 9 of 10, no commit where there is none, commits that do not run."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fixtures.extras.bisect.bisection import SURE_COMMIT, Comparison, NotRunnable, Search, groups, posterior
from fixtures.trace.profile import Work
from studies.bisection import measured_pairs

COMMITS = 64
FIVE_PERCENT = math.log(1.05)


class History:
    """A history whose pairs of launches scatter. slow: position of the slow commit, 0 for none."""

    def __init__(self, seed: int, *, slow: int, scatter: Sequence[float], broken: frozenset[int] = frozenset()) -> None:
        self._random = np.random.default_rng(seed)
        self._slow = slow
        self._scatter = scatter
        self._broken = broken

    def pairs_of(self, older: int, newer: int) -> list[float]:
        for position in (older, newer):
            if position in self._broken:
                raise NotRunnable(position, "ModuleNotFoundError")
        shift = FIVE_PERCENT if older < self._slow <= newer else 0.0
        return [shift + float(self._random.choice(self._scatter)) for _ in range(3)]


def normal(percent: float) -> list[float]:
    return list(np.random.default_rng(0).normal(0, percent / 100, 2000))


def heavy(percent: float) -> list[float]:
    """With the outliers of a machine that others use."""
    return list(percent / 100 * np.random.default_rng(0).standard_t(3, 2000))


SCATTERS = {
    "0.1 %": normal(0.1),
    "2 % with outliers": heavy(2),
    "launches of two H200s": measured_pairs("2x-nvidia-h200-nv18"),
    "launches through host memory": measured_pairs("2x-nvidia-h200-nv18-shm"),
}


@pytest.mark.parametrize("scatter", SCATTERS)
def test_nine_of_ten_planted_commits_are_found_in_eight_comparisons(scatter: str) -> None:
    right, runs = 0, 20
    for seed in range(runs):
        slow = 1 + (seed * 37) % COMMITS
        search = Search(commits=COMMITS)
        ended = search.run(History(seed, slow=slow, scatter=SCATTERS[scatter]).pairs_of)
        right += ended == "found" and search.best == range(slow, slow + 1)
        assert len(search.comparisons) <= 8
    assert right >= 0.9 * runs


@pytest.mark.parametrize("scatter", SCATTERS)
def test_no_commit_is_found_where_none_is_slow(scatter: str) -> None:
    ends = Counter(
        Search(commits=COMMITS).run(History(seed, slow=0, scatter=SCATTERS[scatter]).pairs_of) for seed in range(20)
    )
    assert ends["found"] == 0
    assert ends["no slowdown"] >= 10


def works(*changes: int, broken: frozenset[int] = frozenset()) -> Callable[[int], Work]:
    """A history in which each of these commits adds a copy to a step."""

    def work_of(position: int) -> Work:
        if position in broken:
            raise NotRunnable(position, "ModuleNotFoundError")
        return Work(kernels={"clone": sum(position >= change for change in changes)})

    return work_of


@pytest.mark.parametrize("scatter", SCATTERS)
def test_where_the_slow_commit_changed_the_work_two_comparisons_find_it(scatter: str) -> None:
    search = Search(commits=COMMITS)
    history = History(3, slow=38, scatter=SCATTERS[scatter])
    assert search.run(history.pairs_of, work_of=works(38)) == "found"
    assert search.best == range(38, 39)
    assert [(one.older, one.newer) for one in search.comparisons] == [(0, COMMITS), (37, 38)]
    assert [one.changes.lines() for one in search.changed_work] == [["+1 x clone"]]


def test_a_commit_that_changed_the_work_and_not_the_time_is_not_blamed() -> None:
    search = Search(commits=COMMITS)
    assert search.run(History(1, slow=50, scatter=SCATTERS["0.1 %"]).pairs_of, work_of=works(9, 50)) == "found"
    assert search.best == range(50, 51)
    assert [one.newer for one in search.changed_work] == [9, 50]
    assert len(search.comparisons) == 3


def test_a_slow_commit_with_the_same_work_is_found_by_time() -> None:
    for changed in ((), (9,)):
        search = Search(commits=COMMITS)
        assert search.run(History(1, slow=50, scatter=SCATTERS["0.1 %"]).pairs_of, work_of=works(*changed)) == "found"
        assert search.best == range(50, 51)


def test_where_nothing_is_slower_the_commit_that_changed_the_work_is_known() -> None:
    search = Search(commits=COMMITS)
    broken = frozenset({16, 17, 18})
    history = History(1, slow=0, scatter=SCATTERS["0.1 %"])
    assert search.run(history.pairs_of, work_of=works(17, broken=broken)) == "no slowdown"
    assert [(one.older, one.newer) for one in search.changed_work] == [(15, 19)]


def test_a_revision_that_cannot_be_profiled_is_bisected_by_time() -> None:
    search = Search(commits=COMMITS)
    work_of = works(50, broken=frozenset({COMMITS}))
    assert search.run(History(1, slow=50, scatter=SCATTERS["0.1 %"]).pairs_of, work_of=work_of) == "found"
    assert search.changed_work == []


def test_commits_that_do_not_run_are_skipped_and_cannot_be_told_apart() -> None:
    broken = frozenset(range(30, 34))
    search = Search(commits=COMMITS)
    assert search.run(History(1, slow=32, scatter=SCATTERS["0.1 %"], broken=broken).pairs_of) == "found"
    assert search.best == range(30, 35)
    assert search.skipped.keys() <= broken
    assert search.skipped


def test_two_commits_need_one_comparison() -> None:
    search = Search(commits=1)
    assert search.run(History(1, slow=1, scatter=SCATTERS["0.1 %"]).pairs_of) == "found"
    assert len(search.comparisons) == 1


def test_the_posterior_is_the_prior_without_a_comparison_and_one_disturbed_pair_does_not_decide() -> None:
    found = posterior([], commits=4)
    assert (found.none, *found.of_commit) == pytest.approx((0.5, *[0.125] * 4))
    steady = (0.001, -0.001, 0.0005, 0.0, -0.0005)
    one = Comparison(older=0, newer=8, differences=(*steady, 0.3))
    assert posterior([one], commits=8).none > SURE_COMMIT


@pytest.mark.parametrize("one", [(3, 3), (-1, 2), (0, 9)])
def test_a_comparison_outside_the_history_is_refused(one: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="of 8"):
        posterior([Comparison(older=one[0], newer=one[1], differences=(0.1,))], commits=8)


def test_skipped_commits_are_with_the_next_one_that_runs() -> None:
    assert groups(5, frozenset({2, 3})) == [range(1, 2), range(2, 5), range(5, 6)]
