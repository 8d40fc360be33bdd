"""Failures of a run as a whole: a slower machine, and too little sensitivity."""

import math
from dataclasses import replace

import pytest

from fixtures.matrix.transfers import HOST
from fixtures.stats.decision import found_percent, slower_machine, times_the_machine, too_little_found
from fixtures.stats.verdict import judge

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
    failure = slower_machine("2x-h100", {"matrix_product_4096": slower, "copy": OK}, ["GPU 1: throttled"])
    assert failure is not None
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
    failure = too_little_found("cpu", found, [], 8.9)
    assert failure is not None
    assert failure.test == "perf::sensitivity[cpu]"
    assert failure.reason.startswith(
        "only a slowdown of 9.0 % would have been found in half of 3 tests, --sensitivity requires 8.9 %: "
    )


def test_a_run_without_a_baseline_finds_nothing() -> None:
    alone = too_little_found("cpu", {"a": 20.0}, [], 10)
    assert alone is not None
    assert alone.reason.startswith("only a slowdown of 20.0 % would have been found, --sensitivity")
    failure = too_little_found("cpu", {}, [], 1e6)
    assert failure is not None
    assert failure.reason.startswith("no slowdown would have been found, because no test has a baseline, --sensitivity")


def test_a_slowdown_that_has_another_explanation_is_found_only_beyond_it() -> None:
    found = found_percent({name: replace(OK, threshold_percent=10) for name in "abc"}, {"a": 50, "b": math.inf})
    assert found == pytest.approx({"a": 65, "b": math.inf, "c": 10})
    failure = too_little_found("cpu", found, ["a", "b"], 10)
    assert failure is not None
    assert failure.reason.startswith(
        "only a slowdown of 65.0 % would have been found in half of 3 tests (2 of them next to other work or on a "
        "slower machine), --sensitivity requires 10 %: "
    )
