"""The verdicts of all tests at the end of a run, the common shift, and failures of a run as a whole."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from fixtures.matrix.transfers import HOST
from fixtures.records.differences import software_differences
from fixtures.records.schema import EnvironmentRecord
from fixtures.stats.decision import (
    ComparedTest,
    Decision,
    MeasuredRun,
    Shift,
    common_shift,
    decide,
    excusable,
    explained_by_others_percent,
    first_verdict,
    found_percent,
    share_of_tests_percent,
    slower_machine,
    times_the_machine,
    too_little_found,
)
from fixtures.stats.prior import WIDE, Prior
from fixtures.stats.thresholds import MACHINE_SHARE, SHIFT_SHARE
from fixtures.stats.verdict import Verdict, judge
from tests.builders import environment_of, known

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
    assert verdict(decided(compared(2, launch_medians_s=(0.2, 0.2, 0.2)))).word == "ok"


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


# Common shift: threshold, the part that the machine explains, and its message


def run(slower_percent: list[float], records: int = 1) -> list[ComparedTest]:
    """Tests of 100 ms, each slower by this percentage than all its records."""
    return [
        ComparedTest(launch_medians_s=(0.1 * (1 + p / 100),), records={f"{r:04}": [0.1] for r in range(records)})
        for p in slower_percent
    ]


def canary_slower_by(slower_percent: float) -> dict[str, Verdict]:
    return {"matrix_product": judge([1 + slower_percent / 100] * 6, [[1.0] * 6])}


def shift_of(compared: list[ComparedTest], canaries: dict[str, Verdict], software: tuple[str, ...] = ()) -> Shift:
    return known(common_shift(compared, canaries, software=software))


def test_a_common_shift_is_found_although_each_test_is_below_its_own_threshold() -> None:
    tests = run([8.0] * 40)
    assert judge(tests[0].launch_medians_s, [[0.1]], tests=40, false_alarms_percent=0.5).word == "unclear"
    shift = shift_of(tests, canary_slower_by(0))
    assert (shift.word, shift.fails, shift.slower) == ("slower", True, 40)
    assert shift.change_percent == pytest.approx(8)
    assert shift.reason.startswith(
        "all 40 tests are slower, by about 8.0 % (threshold 7.2 %), no canary is slower: matrix"
    )


def test_of_fewer_than_five_tests_those_that_communicate_are_judged_together() -> None:
    single = replace(run([0.0])[0], communicates=False)
    shift = shift_of([*run([9.0, 8.0]), single, single], {})
    assert (shift.word, shift.fails) == ("slower", True)
    assert shift.reason.startswith("all 2 tests that communicate are slower, by about 8.5 %")
    assert common_shift([*run([9.0]), single, single, single], {}) is None
    assert shift_of([*run([9.0, 9.0]), *[single] * 3], {}).word == "ok"  # five: all of them


@pytest.mark.parametrize("records", [1, 3, 10])
def test_the_threshold_equals_that_of_one_test_at_its_share_of_the_false_alarms(records: int) -> None:
    limit = (
        stats.t.isf(0.01 * SHIFT_SHARE, min(3 + records, 6))
        * 0.01
        * math.sqrt(4 / (3 + records))
        * math.sqrt(1 + 1 / records)
    )
    assert shift_of(run([0.0] * 9, records), {}).threshold_percent == pytest.approx(100 * math.expm1(limit))


def test_records_that_differ_in_all_tests_raise_the_threshold() -> None:
    records = {"0001": [0.1], "0002": [0.11]}
    apart = [ComparedTest(launch_medians_s=(0.105,), records=records) for _ in range(6)]
    spread = math.sqrt((4 * 0.01**2 + math.log(1.1) ** 2 / 2) / 5)
    limit = stats.t.isf(0.01 * SHIFT_SHARE, 5) * spread * math.sqrt(1.5)
    assert shift_of(apart, {}).threshold_percent == pytest.approx(100 * math.expm1(limit))


def test_records_that_differ_in_one_test_do_not_raise_the_threshold() -> None:
    odd = ComparedTest(launch_medians_s=(0.1,), records={"0000": [0.1], "0001": [0.2]})
    with_odd, without = shift_of([*run([0.0] * 9, 2), odd], {}), shift_of(run([0.0] * 10, 2), {})
    assert with_odd.threshold_percent == without.threshold_percent


def test_scattered_changes_raise_the_threshold_and_half_of_the_tests_are_no_common_shift() -> None:
    steady, scattered, half = [10.0] * 5, [-60.0, -30.0, 10.0, 80.0, 300.0], [0.0] * 6 + [30.0] * 5
    assert [shift_of(run(changes), {}).word for changes in (steady, scattered, half)] == ["slower", "ok", "ok"]


def test_slower_canaries_explain_the_shift_up_to_the_change_of_the_slowest() -> None:
    shift = shift_of(run([10.0] * 5), canary_slower_by(12))
    assert not shift.fails
    assert shift.explained_percent == pytest.approx(10)
    assert shift.reason == (
        "the machine changed: all 5 tests are slower, by about 10.0 % (threshold 7.2 %), "
        "and so are canaries: matrix_product 12.0 % slower"
    )
    for percent in (3, 0, -50):
        assert shift_of(run([10.0] * 5), canary_slower_by(percent)).explained_percent == 0
    shift = shift_of(run([40.0] * 5), canary_slower_by(15))
    assert shift.fails
    assert shift.explained_percent == pytest.approx(15)
    assert shift.reason.endswith("; it explains 15.0 % at most")


@pytest.mark.parametrize(
    ("percent", "canaries", "software", "found", "says"),
    [
        (
            10.0,
            canary_slower_by(12),
            ("nccl 2.27 -> 2.28",),
            ("slower", True),
            "not explained by the machine, because the software changed too: nccl 2.27 -> 2.28",
        ),
        (10.0, {}, (), ("slower", True), "no record has canaries of this world, so a slower machine and slower code"),
        (-20.0, canary_slower_by(-20), (), ("faster", False), "all 5 tests are faster, by about 20.0 % "),
    ],
    ids=["other software", "no canaries", "faster"],
)
def test_canaries_excuse_nothing_if_the_software_changed_or_there_are_none_and_a_speedup_does_not_fail(
    percent: float, canaries: dict[str, Verdict], software: tuple[str, ...], found: tuple[str, bool], says: str
) -> None:
    shift = shift_of(run([percent] * 5), canaries, software)
    assert (shift.word, shift.fails) == found
    assert says in shift.reason


@pytest.mark.parametrize(("limited", "explained"), [(3, 10), (2, 0)])
def test_a_slower_host_explains_the_shift_if_it_limits_most_tests(limited: int, explained: float) -> None:
    host = judge([1.12] * 6, [[1.0] * 6])
    tests = [replace(test, host=host if index < limited else None) for index, test in enumerate(run([10.0] * 5))]
    shift = shift_of(tests, canary_slower_by(0))
    assert shift.explained_percent == pytest.approx(explained)
    assert shift.fails == (explained == 0)
    assert (HOST in shift.reason) == (explained > 0)


def test_one_test_has_no_common_shift_and_few_take_its_share() -> None:
    assert common_shift(run([50.0]), {}) is None
    assert (share_of_tests_percent(1, 4), share_of_tests_percent(1, 5)) == (1 - MACHINE_SHARE, 0.5)


def test_a_test_is_excusable_only_if_canaries_can_explain_its_change() -> None:
    slower = judge([0.15], [[0.1]])
    assert slower.word == "slower"
    assert excusable(slower, canary_slower_by(45), ())
    assert not excusable(slower, canary_slower_by(20), ())
    assert not excusable(slower, canary_slower_by(45), ("torch 2.14 -> 2.15",))


def test_software_and_its_variables_are_compared_but_not_the_host() -> None:
    before = {"torch": "2.14", "nccl": "2.27", "driver": "1", "host": "a", "variables": {"NCCL_ALGO": "Ring"}}
    now = {"torch": "2.15", "nccl": "2.27", "driver": "2", "host": "b", "variables": {}}
    assert software_differences(environment_of(before), environment_of(now)) == [
        "torch 2.14 -> 2.15",
        "NCCL_ALGO Ring -> unset",
    ]


def test_variables_of_devices_caches_and_logs_are_not_compared() -> None:
    compared = (
        *("CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS", "TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    )
    names = (*compared, "CUDA_VISIBLE_DEVICES", "TORCH_HOME", "TORCH_LOGS")
    before, now = (EnvironmentRecord(variables=dict.fromkeys(names, value)) for value in "01")
    assert sorted(software_differences(before, now)) == sorted(f"{name} 0 -> 1" for name in compared)


# Failures of a run as a whole: a slower machine, and too little sensitivity


OK = judge([0.1], [[0.1]])


@pytest.mark.parametrize(
    ("canary", "seconds", "on_gpu", "through_host", "of_machine"),
    [
        ("matrix_product_4096", 3e-3, True, True, True),
        ("device_to_device_copy_256mb", 1.2e-4, True, True, True),
        ("all_reduce_64mb", 3e-4, True, False, True),
        ("all_reduce_64mb", 3e-3, True, True, False),
        ("all_reduce_1mb", 5e-5, True, False, False),
        ("host_to_device_copy_64mb", 1e-3, True, False, False),
        (HOST, 6e-3, True, False, False),
        ("matrix_product_256", 3e-3, False, False, False),
    ],
)
def test_canaries_of_gpus_and_their_links_time_the_machine(
    canary: str, seconds: float, on_gpu: bool, through_host: bool, of_machine: bool
) -> None:
    assert times_the_machine(canary, seconds, on_gpu=on_gpu, through_host=through_host) == of_machine


def test_a_slower_machine_fails_with_its_numbers_and_what_else_was_seen() -> None:
    slower = judge([0.0036] * 3, [[0.0027] * 3], each="a repetition")
    failure = known(slower_machine("2x-h100", {"matrix_product_4096": slower, "copy": OK}, ["GPU 1: throttled"]))
    assert failure.test == "perf::machine[2x-h100]"
    assert failure.reason.startswith(
        "the machine is slower than in its records: matrix_product_4096 is slower by 33.3 % (threshold 5.4 %): 3.6 ms "
        "a repetition, 2.7 ms in 1 record; GPU 1: throttled; tests that this explains are unclear"
    )
    assert slower_machine("2x-h100", {"copy": OK}, ["GPU 1: throttled"]) is None


def test_a_run_finds_half_of_the_slowdowns_as_large_as_the_median_threshold() -> None:
    verdicts = {name: replace(OK, threshold_percent=size) for name, size in zip("abc", (1.0, 9.0, 90.0), strict=True)}
    found = found_percent(verdicts | {"new": judge([0.1], [])}, {})
    assert found == pytest.approx({"a": 1, "b": 9, "c": 90})
    assert too_little_found("cpu", found, [], 9.01) is None
    failure = known(too_little_found("cpu", found, [], 8.9))
    assert failure.test == "perf::sensitivity[cpu]"
    assert failure.reason.startswith(
        "only a slowdown of 9.0 % would have been found in half of 3 tests, --sensitivity requires 8.9 %: "
    )


def test_a_slowdown_that_has_another_explanation_is_found_only_beyond_it() -> None:
    found = found_percent({name: replace(OK, threshold_percent=10) for name in "abc"}, {"a": 50, "b": math.inf})
    assert found == pytest.approx({"a": 65, "b": math.inf, "c": 10})
    assert known(too_little_found("cpu", found, ["a", "b"], 10)).reason.startswith(
        "only a slowdown of 65.0 % would have been found in half of 3 tests (2 of them next to other work or on a "
        "slower machine), --sensitivity requires 10 %: "
    )
