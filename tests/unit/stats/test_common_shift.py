"""Common shift: threshold, the part that the machine explains, and its message."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from fixtures.matrix.transfers import HOST
from fixtures.records.differences import software_differences
from fixtures.records.schema import EnvironmentRecord
from fixtures.stats.decision import ComparedTest, Shift, common_shift, excusable, share_of_tests_percent
from fixtures.stats.thresholds import MACHINE_SHARE, SHIFT_SHARE
from fixtures.stats.verdict import Verdict, judge
from tests.builders import environment_of


def run(slower_percent: list[float], records: int = 1) -> list[ComparedTest]:
    """Tests of 100 ms, each slower by this percentage than all its records."""
    return [
        ComparedTest(launch_medians_s=(0.1 * (1 + p / 100),), records={f"{r:04}": [0.1] for r in range(records)})
        for p in slower_percent
    ]


def canary(slower_percent: float) -> dict[str, Verdict]:
    return {"matrix_product": judge([1 + slower_percent / 100] * 6, [[1.0] * 6])}


def shift_of(compared: list[ComparedTest], canaries: dict[str, Verdict], software: tuple[str, ...] = ()) -> Shift:
    shift = common_shift(compared, canaries, software=software)
    assert shift is not None
    return shift


def test_a_common_shift_is_found_although_each_test_is_below_its_own_threshold() -> None:
    tests = run([8.0] * 40)
    limit = judge(tests[0].launch_medians_s, [[0.1]], tests=40, false_alarms_percent=0.5)
    assert limit.word == "unclear"
    shift = shift_of(tests, canary(0))
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
    shift = shift_of(run([10.0] * 5), canary(12))
    assert not shift.fails
    assert shift.explained_percent == pytest.approx(10)
    assert shift.reason == (
        "the machine changed: all 5 tests are slower, by about 10.0 % (threshold 7.2 %), "
        "and so are canaries: matrix_product 12.0 % slower"
    )
    for percent in (3, 0, -50):
        assert shift_of(run([10.0] * 5), canary(percent)).explained_percent == 0
    shift = shift_of(run([40.0] * 5), canary(15))
    assert shift.fails
    assert shift.explained_percent == pytest.approx(15)
    assert shift.reason.endswith("; it explains 15.0 % at most")


def test_slower_canaries_excuse_nothing_if_the_software_changed() -> None:
    shift = shift_of(run([10.0] * 5), canary(12), ("nccl 2.27 -> 2.28",))
    assert shift.fails
    assert shift.reason.endswith("not explained by the machine, because the software changed too: nccl 2.27 -> 2.28")


@pytest.mark.parametrize(("limited", "explained"), [(3, 10), (2, 0)])
def test_a_slower_host_explains_the_shift_if_it_limits_most_tests(limited: int, explained: float) -> None:
    host = judge([1.12] * 6, [[1.0] * 6])
    tests = [replace(test, host=host if index < limited else None) for index, test in enumerate(run([10.0] * 5))]
    shift = shift_of(tests, canary(0))
    assert shift.explained_percent == pytest.approx(explained)
    assert shift.fails == (explained == 0)
    assert (HOST in shift.reason) == (explained > 0)


def test_without_canaries_in_the_records_the_shift_fails_and_says_so() -> None:
    shift = shift_of(run([10.0] * 5), {})
    assert shift.fails
    assert "no record has canaries of this world, so a slower machine and slower code look the same" in shift.reason


def test_a_common_speedup_is_reported_and_does_not_fail() -> None:
    shift = shift_of(run([-20.0] * 5), canary(-20))
    assert (shift.word, shift.fails) == ("faster", False)
    assert shift.reason.startswith("all 5 tests are faster, by about 20.0 % ")


def test_one_test_has_no_common_shift_and_few_take_its_share() -> None:
    assert common_shift(run([50.0]), {}) is None
    assert (share_of_tests_percent(1, 4), share_of_tests_percent(1, 5)) == (1 - MACHINE_SHARE, 0.5)


def test_a_test_is_excusable_only_if_canaries_can_explain_its_change() -> None:
    slower = judge([0.15], [[0.1]])
    assert slower.word == "slower"
    assert excusable(slower, canary(45), ())
    assert not excusable(slower, canary(20), ())
    assert not excusable(slower, canary(45), ("torch 2.14 -> 2.15",))


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
