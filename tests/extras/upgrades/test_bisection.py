"""The bisection of commits: the search, what it measures, and its output."""

import math
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fixtures.extras.upgrades import command
from fixtures.extras.upgrades.bisection import SURE_COMMIT, Comparison, NotRunnable, Search, groups, posterior
from fixtures.extras.upgrades.command import (
    BadHistory,
    Commit,
    _search,
    chosen,
    commits_between,
    releases_between,
    releases_of,
)
from fixtures.report.commands import PERF
from fixtures.trace.profile import Work
from studies.bisection import measured_pairs
from tests.command_line import ROOT
from tests.own_repository import git

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


def test_skipped_commits_are_with_the_next_one_that_runs() -> None:
    assert groups(5, frozenset({2, 3})) == [range(1, 2), range(2, 5), range(5, 6)]


# What ``python -m fixtures bisect`` prints of a search, and its exit codes; the pairs of launches are made up


HISTORY = [
    Commit(name=f"{position:010d}", author="A. Author, 2026-11-01", subject=f"change {position}")
    for position in range(9)
]
PairsOf = Callable[[int, int], Sequence[float]]


def planted(slow: int | None, *, broken: Sequence[int] = (), scatter: float = 0.002) -> PairsOf:
    """Pairs of a history in which one commit makes steps 10 % longer, and some do not run."""

    def pairs_of(older: int, newer: int) -> Sequence[float]:
        for position in (older, newer):
            if position in broken:
                raise NotRunnable(position, "ModuleNotFoundError: no_such_dependency")
        shift = math.log(1.1) if slow is not None and older < slow <= newer else 0.0
        return [shift - scatter, shift, shift + scatter]

    return pairs_of


def interrupted_after(count: int, pairs_of: PairsOf) -> PairsOf:
    """Ctrl-C during a later call."""
    calls = iter(range(count))

    def interrupted(older: int, newer: int) -> Sequence[float]:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return pairs_of(older, newer)

    return interrupted


def searched(pairs_of: PairsOf, **options: int) -> int:
    return _search(Search(commits=8, **options), HISTORY, pairs_of, None, as_json=False)


Captured = pytest.CaptureFixture[str]


def test_the_commit_is_named_and_each_measurement_says_in_which_comparison_it_is(capsys: Captured) -> None:
    assert searched(planted(5)) == 0
    said = capsys.readouterr()
    assert "slow since 0000000005 change 5 (" in said.out
    assert "  A. Author, 2026-11-01\n  10.00 % slower than 0000000004 change 4 (95 % interval " in said.out
    first, *later = [line for line in said.err.splitlines() if ": measuring " in line]
    assert first == (
        "comparison 1 of at most 8: measuring 0000000008 against 0000000000; how long it takes is known after the "
        "first pairs"
    )
    assert later
    assert all(re.search(r"^comparison \d of at most 8: .*; about \d+ min left$", line) for line in later)


def test_commits_that_do_not_run_are_skipped_and_listed_with_the_one_after_them(capsys: Captured) -> None:
    assert searched(planted(5, broken=(4,))) == 0
    said = capsys.readouterr()
    assert "skipped 0000000004 change 4: ModuleNotFoundError: no_such_dependency" in said.err
    assert "the slow one is one of 2, and only the last of them runs (" in said.out
    assert said.out.index("  0000000004 change 4\n") < said.out.index("  0000000005 change 5\n")


def test_a_search_that_names_no_commit_says_what_is_next(capsys: Captured) -> None:
    assert searched(planted(None)) == 1
    output = capsys.readouterr().out
    assert output.startswith("no commit to find: 0000000008 is as fast as 0000000000 (95 % interval ")
    assert output.endswith("a slowdown below 1 % needs a lower --min-slowdown\n")
    assert searched(planted(5), max_comparisons=2) == 1
    output = capsys.readouterr().out
    assert "not decided: the slow one is among 4, 0000000005 change 5 to 0000000008 change 8; " in output
    assert "next: --good 0000000004 --bad 0000000008, or more --max-comparisons" in output


@pytest.mark.parametrize(
    ("calls", "says"),
    [(0, "nothing is known: no comparison has ended"), (2, "not decided: the slow one is among ")],
)
def test_after_ctrl_c_what_is_known_is_said(calls: int, says: str, capsys: Captured) -> None:
    assert searched(interrupted_after(calls, planted(5))) == 130
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(("position", "option"), [(0, "--good"), (8, "--bad")])
def test_an_end_of_the_history_that_does_not_run_is_named(position: int, option: str, capsys: Captured) -> None:
    assert searched(planted(5, broken=(position,))) == 2
    assert f"error: {option} {HISTORY[position]} does not run: ModuleNotFoundError" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--junitxml=perf.xml"], ["-o", "junit_suite_name=perf"], []])
def test_the_suites_tests_are_bisected_unless_a_file_of_tests_is_given(arguments: list[str]) -> None:
    assert chosen(arguments) == [*PERF, *arguments]
    assert chosen([f"{__file__}::test_it", *arguments]) == [f"{__file__}::test_it", *arguments]


# The commits between two revisions, and the releases between two requirements


VERSIONS = ["1.0", "1.2", "1.10", "2.0"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commits v0 to v4; v3 merges a branch of two commits; other is on a branch of its own."""
    top = tmp_path_factory.mktemp("history")
    git(top, "init", "--quiet", "--initial-branch=main")
    for number in range(3):
        git(top, "commit", "--quiet", "--allow-empty", f"--message=change {number}")
        git(top, "tag", f"v{number}")
    git(top, "switch", "--quiet", "--create=other", "v1")
    for number in range(2):
        git(top, "commit", "--quiet", "--allow-empty", f"--message=beside {number}")
    git(top, "switch", "--quiet", "main")
    git(top, "merge", "--quiet", "--no-ff", "--message=merge of \x1b[31m other", "other")
    git(top, "tag", "v3")
    git(top, "commit", "--quiet", "--allow-empty", "--message=change 4")
    git(top, "tag", "v4")
    return top


def test_commits_are_listed_from_the_good_one_on_and_a_merge_is_one(repository: Path) -> None:
    found = commits_between(repository, "v1", "v4")
    assert [commit.name for commit in found] == [
        git(repository, "rev-parse", f"v{n}^{{commit}}").strip() for n in range(1, 5)
    ]
    assert found[0].subject == "change 1"
    assert found[0].author.startswith("somebody, 20")
    assert "\x1b" not in found[2].subject
    assert str(found[3]) == f"{found[3].name[:10]} change 4"


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("v9", "v4", "--good v9: no such revision in "),
        ("v1", "--all", "--bad --all: no such revision in "),
        ("v4", "main", "are one commit"),
        ("v4", "v1", "--good v4 is not an ancestor of --bad v1: give an older one, git merge-base v4 v1"),
        ("other", "v2", "--good other is not an ancestor of --bad v2"),
    ],
)
def test_revisions_without_a_history_between_them_are_named(repository: Path, good: str, bad: str, says: str) -> None:
    with pytest.raises(BadHistory, match=re.escape(says)):
        commits_between(repository, good, bad)


def test_releases_are_those_that_pip_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder, where alone pip looks."""
    for version in VERSIONS:
        info = f"planted_job-{version}.dist-info"
        with zipfile.ZipFile(tmp_path / f"planted_job-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: planted-job\nVersion: {version}\n")
            tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{info}/WHEEL", tags)
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert releases_of("planted-job") == VERSIONS
    with pytest.raises(BadHistory, match="pip finds no releases of no-such-package"):
        releases_of("no-such-package")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would list."""
    monkeypatch.setattr(command, "releases_of", lambda package: VERSIONS)


@pytest.mark.usefixtures("listed")
def test_a_history_of_releases_is_in_the_order_of_pips_list() -> None:
    found = releases_between("planted-job==1.0", "planted-job==1.10")
    assert [release.name for release in found] == ["planted-job==1.0", "planted-job==1.2", "planted-job==1.10"]


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("planted-job==1.1", "planted-job==2.0", "--good planted-job==1.1: pip finds 1.0, 1.2, 1.10, 2.0"),
        ("planted-job==2.0", "planted-job==1.0", "--bad planted-job==1.0 is not newer than --good planted-job==2.0"),
        ("planted-job==2.0", "planted-job==2.0", "--bad planted-job==2.0 is not newer than --good planted-job==2.0"),
        ("planted-job==1.0", "v3", "give two releases of one package, or two git revisions"),
        ("planted-job>=1.0", "planted-job==2.0", "give two releases of one package, or two git revisions"),
    ],
)
def test_releases_that_are_not_there_are_named(good: str, bad: str, says: str) -> None:
    with pytest.raises(BadHistory, match=says):
        releases_between(good, bad)


# The run of pytest of a comparison: Ctrl-C at any moment ends it


# Python calls the function in the parent right after a fork, and drops an exception that is raised there.
INTERRUPTED_AFTER_THE_FORK = """
import os, signal, sys
from pathlib import Path
from fixtures.extras.upgrades.command import _run

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    _run(["sleep", "20"], dict(os.environ), Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_right_after_the_start_is_not_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AFTER_THE_FORK, str(tmp_path / "output")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=15, check=False)
    assert done.stdout == "interrupted\n", done.stderr
