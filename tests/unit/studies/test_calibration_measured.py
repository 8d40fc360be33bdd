"""Rules applied to two measured runs of the same code."""

from typing import Any

import pytest

from studies.calibration_measured import RULES, paired, shift_of, unchanged


def run(hour: int, *tests: dict[str, Any], host: str = "one") -> dict[str, Any]:
    environment = {"host": host, "gpu_uuids": [f"GPU-of-{host}"]}
    return {"datetime": f"2026-11-20T{hour:02}:00", "environment": environment, "benchmarks": list(tests)}


def measured(name: str, *launches: float, instance: str = "8x", steps: int = 8) -> dict[str, Any]:
    """Benchmark whose steps within a launch differ by at most 0.1 %."""
    data = [launch * (1 + step / 1000 / steps) for launch in launches for step in range(steps)]
    info = {"instance": instance, "interconnect": "native", "launch_medians_s": list(launches)}
    return {"fullname": name, "stats": {"data": data}, "extra_info": info}


@pytest.mark.parametrize(
    ("slower_percent", "called"),
    [(0.3, [0, 0, 0, 1]), (6, [0, 1, 0, 1]), (15, [0, 1, 1, 1]), (40, [1, 1, 1, 1]), (-40, [0, 0, 0, 0])],
)
def test_each_rule_has_its_own_threshold(slower_percent: float, called: list[int]) -> None:
    then, now = measured("a", *[0.1] * 3), measured("a", *[0.1 * (1 + slower_percent / 100)] * 3)
    assert list(unchanged([run(1, then), run(2, now)])) == [
        ("8x", "the same", 1, dict(zip(RULES, called, strict=True)))
    ]


def test_runs_are_paired_older_with_newer_by_instance_and_machine() -> None:
    a, b, shm = measured("a", 0.1), measured("b", 0.1), measured("a-shm", 0.1, instance="8x-shm")
    runs = [run(3, a, shm, host="two"), run(1, a, b, shm), run(2, a, b, host="two")]
    found = [(pair.instance, pair.machine, pair.before["datetime"][11:13], len(pair.tests)) for pair in paired(runs)]
    assert found == [
        ("8x", "another", "01", 2),
        ("8x", "another", "01", 1),
        ("8x-shm", "another", "01", 1),
        ("8x", "the same", "02", 1),
    ]
    assert [(instance, machine, tests) for instance, machine, tests, _ in unchanged(runs)] == [
        ("8x", "another", 3),
        ("8x", "the same", 1),
        ("8x-shm", "another", 1),
    ]


@pytest.mark.parametrize(("canary_s", "red"), [(0.001, True), (0.002, False)], ids=["flat", "slower"])
def test_a_shift_that_canaries_explain_does_not_fail(canary_s: float, red: bool) -> None:
    def whole(hour: int, step_s: float, copy_s: float) -> dict[str, Any]:
        tests = [measured(name, *[step_s + k / 1e5] * 3) for k, name in enumerate("abcdef")]
        canaries = {"copy": {"before_s": [copy_s] * 3, "after_s": [copy_s] * 3}}
        return run(hour, *tests) | {"canaries": {"native": {"world": "8gpu", "canaries": canaries}}}

    (pair,) = paired([whole(1, 0.1, 0.001), whole(2, 0.14, canary_s)])
    shift = shift_of(pair)
    assert shift is not None
    assert shift.tests == 6
    assert shift.fails == red
