"""The verdicts of all tests at the end of a run."""

import math
from dataclasses import replace

import pytest

from fixtures.stats.decision import (
    ComparedTest,
    Decision,
    MeasuredRun,
    decide,
    explained_by_others_percent,
    first_verdict,
    interrupted,
    is_open,
)
from fixtures.stats.prior import WIDE, Prior
from fixtures.stats.verdict import UNJUDGED, Verdict, judge

QUIET = {f"000{number}": [0.1, 0.1, 0.1] for number in range(3)}
CANARY = "matrix_product_4096"
# Of a test that is 2 % slower than QUIET.
SHARP = judge([0.102] * 3, list(QUIET.values()), prior=Prior(variance=1e-6, degrees=6))


def compared(change_percent: float, *again_percent: float, **fields: object) -> ComparedTest:
    """A test that differs from QUIET by this much, and by ``again_percent`` when it was measured again."""
    first, *others = ([0.1 * (1 + percent / 100)] * 3 for percent in (change_percent, *again_percent))
    test = ComparedTest(
        launch_medians_s=tuple(min([first, *others])),
        records=QUIET,
        first=first_verdict(
            first,
            list(QUIET.values()),
            count=1,
            false_alarms_percent=1,
            min_slowdown_percent=1,
            prior=WIDE,
            each="a step",
        ),
    )
    return replace(test, **fields)  # type: ignore[arg-type]  # of the caller


def decided(*tests: ComparedTest, canary_percent: float = 0, **fields: object) -> Decision:
    """The first of these tests is ``0``. The canary's record is QUIET."""
    times_s = [0.1 * (1 + canary_percent / 100)] * 3
    run = MeasuredRun(
        instance="rack-7",
        tests={str(number): test for number, test in enumerate(tests)},
        count=1,
        canaries={CANARY: judge(times_s, list(QUIET.values()))},
        of_machine=frozenset({CANARY}),
    )
    return decide(replace(run, **fields))  # type: ignore[arg-type]  # of the caller


def test_a_slowdown_that_a_late_host_of_this_kind_may_cause_is_unclear_and_not_measured_again() -> None:
    sharp = Prior(variance=1e-6, degrees=6)
    found = decided(compared(2, prior=sharp, first=SHARP, late_host=WIDE))
    assert verdict(found).word == "unclear"
    assert "the host limits the step, and did not in its records" in verdict(found).reason
    assert found.suspects == []
    assert verdict(decided(compared(2, prior=sharp, first=SHARP))).word == "slower"
    assert verdict(decided(compared(30, prior=sharp, late_host=WIDE))).word == "slower"


def verdict(decision: Decision) -> Verdict:
    return decision.verdicts["0"]


@pytest.mark.parametrize(("change_percent", "word"), [(20, "slower"), (-20, "faster")])
def test_an_open_test_that_nothing_explains_keeps_its_direction(change_percent: float, word: str) -> None:
    decision = decided(compared(change_percent))
    assert verdict(decision).word == word
    assert decision.suspects == (["0"] if word == "slower" else [])
    assert decision.failures == []


@pytest.mark.parametrize("again_percent", [(1,), (20, 1)])
def test_one_measurement_that_is_not_slower_is_enough(again_percent: tuple[float, ...]) -> None:
    decision = decided(compared(20, *again_percent))
    assert (verdict(decision).word, decision.suspects) == ("ok", [])
    assert verdict(decided(compared(20, 21, 22))).word == "slower"


@pytest.mark.parametrize("change_percent", [20, -20])
def test_a_change_no_larger_than_those_of_all_tests_is_unclear(change_percent: float) -> None:
    others = [compared(change) for change in (-30, -22, -15, 15, 22, 30)]
    found = verdict(decided(compared(change_percent), *others))
    assert found.word == "unclear"
    assert "; the changes of all tests vary " in found.reason
    assert found.reason.endswith(f"so the threshold is {found.threshold_percent:.1f} %")


def test_the_other_tests_narrow_no_threshold_and_a_test_that_was_ok_is_never_slower() -> None:
    test = compared(2)
    narrow = replace(test, first=replace(test.first, threshold_percent=30))
    assert (verdict(decided(narrow)).word, verdict(decided(narrow)).threshold_percent) == ("unclear", 30)
    assert verdict(decided(compared(2))).word == "ok"
    wide = [compared(change) for change in (-30, -22, -15, 15, 22, 30)]
    assert verdict(decided(compared(2), *wide)).word == "unclear"
    late = compared(2, launch_medians_s=(0.2, 0.2, 0.2))
    assert verdict(decided(late)).word == "ok"


@pytest.mark.parametrize(("canary_percent", "word"), [(19, "unclear"), (8, "slower")])
def test_what_the_machine_explains_is_unclear_and_not_measured_again(canary_percent: float, word: str) -> None:
    # Tests that share their launches count once.
    tests = [compared(20, launch_medians_s=(0.12 * (1 + n / 1e6),) * 3) for n in range(6)]
    decision = decided(*tests, canary_percent=canary_percent)
    assert verdict(decision).word == word
    assert f"; the machine explains {canary_percent}.0 %" in verdict(decision).reason
    assert bool(decision.suspects) == (word == "slower")
    assert "perf::machine[rack-7]" in [failure.test for failure in decision.failures]


def test_slower_canaries_leave_a_test_of_few_unclear_but_no_bare_transfer() -> None:
    decision = decided(compared(20), canary_percent=50)
    found = verdict(decision)
    assert (found.word, decision.suspects) == ("unclear", [])  # a further measurement could not make it slower
    assert found.reason.endswith("; with fewer than 5 tests it is unknown how much of it the machine explains")
    assert verdict(decided(compared(20, trains=False), canary_percent=50)).word == "slower"


def test_other_work_leaves_a_slower_test_unclear_up_to_what_it_takes() -> None:
    decision = decided(compared(20, others=(1, 2)))
    assert (verdict(decision).word, verdict(decision).exceeds, decision.suspects) == ("unclear", True, ["0"])
    assert verdict(decision).reason.endswith(
        "; other processes used 1.0 of 2 cores in every measurement, which explains 183 %"
    )
    assert explained_by_others_percent(0.1, 2) == 0
    assert explained_by_others_percent(2, 2) < math.inf
    assert verdict(decided(compared(400, others=(1, 2)))).word == "slower"


def test_a_run_that_could_find_little_fails_also_without_a_baseline() -> None:
    new = compared(0, records={}, first=judge([0.1], []))
    for test in (compared(2), new):
        (failure,) = decided(test, sensitivity_percent=1).failures
        assert failure.test == "perf::sensitivity[rack-7]"
    assert decided(new).failures == []


def test_an_open_test_of_an_interrupted_run_is_unclear() -> None:
    first = compared(20).first
    assert is_open(first)
    assert interrupted(first).word == "unclear"
    assert interrupted(first).reason.startswith("interrupted, not measured again: slower by 20.0 %")
    assert not is_open(UNJUDGED)
