"""What ``--doctor`` prints."""

from typing import Any

from fixtures.extras.doctor.findings import Check, Fact, Grade
from fixtures.extras.doctor.gpu_checks import GPU_CHECKS
from fixtures.extras.doctor.host_checks import HOST_CHECKS
from fixtures.extras.doctor.plugin import doctor_lines


# Any: read from nothing.
def found(text: str, grade: Grade, costs: str = "", advice: str = "") -> tuple[Check[Any], Fact]:
    return Check("x", lambda source: [], costs, advice), Fact(text, grade)


FIT = found("no swap", "ok", "pages come back", "swapoff")
SLOWER = found("power limit 1 W of 2 W", "warning", "low clocks", "raise it")
UNFIT = found("/dev/shm has 1 MB free", "error", "NCCL fails", "add more")
LONG = found("fact " * 12, "error", "costs " * 12, "advice " * 12)


def test_findings_stand_by_grade_and_the_verdict_is_last() -> None:
    assert doctor_lines([UNFIT, FIT, SLOWER, SLOWER]) == [
        "fit:",
        "  no swap",
        "slower:",
        "  power limit 1 W of 2 W: low clocks; raise it",
        "  power limit 1 W of 2 W: low clocks; raise it",
        "unfit:",
        "  /dev/shm has 1 MB free: NCCL fails; add more",
        "this machine is unfit to measure: 1 error, 2 warnings",
    ]
    assert doctor_lines([FIT])[-1] == "this machine is fit to measure"
    assert doctor_lines([FIT, SLOWER])[-1] == "this machine is fit to measure, but slower or less steady: 1 warning"
    assert max(map(len, doctor_lines([LONG]))) <= 100


def test_every_check_has_its_name_and_says_what_to_do() -> None:
    checks: list[Check[object]] = [*GPU_CHECKS, *HOST_CHECKS]  # type: ignore[list-item]
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert [check.name for check in checks if not (check.costs and check.advice)] == ["inventory", "shipped records"]
