"""What ``python -m fixtures bisect`` prints of a search, and its exit codes; the pairs of launches are made up."""

import math
import re
from collections.abc import Callable, Sequence

import pytest

from fixtures.extras.bisect.bisection import NotRunnable, Search
from fixtures.extras.bisect.command import _search, chosen
from fixtures.extras.bisect.commits import Commit
from fixtures.report.commands import PERF

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
