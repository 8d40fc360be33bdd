"""The long run with random faults: repeatable, and a wrong report of a fault is a finding."""

import re
from collections.abc import Mapping

import pytest

from fixtures.launch.rank_sets import CHANGES_ITS_PROCESS
from fixtures.matrix.workloads import find_workload
from studies.faulty_workloads import HEALTHY, KINDS, planted
from studies.long_run import DISTURBANCES, MODULE, Done, Plan, _check, drawn, markdown, numbers

TESTS = ("healthy__r0_s0_0", "raises__r1_s3_1", "healthy__r0_s0_11")
RIGHT = "launch 1 of ddp_default on 2cpu: rank 1 raised ValueError: the label is out of range at step 3 (forward)"


def ended(
    *, exit_code: int = 1, disturbance: str = "none", said: str = "", but: Mapping[str, str] | None = None
) -> Done:
    """A run of TESTS with the expected outcomes, except those in ``but``, after the check."""
    plan = Plan(number=1, seed=1, tests=TESTS, disturbance=disturbance, moment=0.5)
    done = Done(plan=plan, exit_code=exit_code, disturbed=True, outcomes=dict.fromkeys(TESTS, ""))
    done.outcomes |= {TESTS[1]: RIGHT, **(but or {})}
    _check(done, said, set())
    return done


def test_a_seed_repeats_its_runs() -> None:
    plans = [drawn(3, number) for number in range(400)]
    assert plans == [drawn(3, number) for number in range(400)]
    assert {plan.disturbance for plan in plans} == {*DISTURBANCES}
    assert {planted(test).kind for plan in plans for test in plan.tests} == {*KINDS}  # type: ignore[union-attr]


def test_every_name_is_a_workload_and_every_pattern_compiles() -> None:
    for kind in KINDS:
        assert find_workload(f"studies.faulty_workloads:{kind}__r1_s3_1").name == f"{kind}__r1_s3_1"
        re.compile(planted(f"{kind}__r1_s3_1").fails or "")  # type: ignore[union-attr]


def test_what_is_expected_is_no_finding() -> None:
    assert ended().findings == []
    assert ended(disturbance="rank killed", but={TESTS[2]: "rank 0 died of SIGKILL at step 1"}).findings == []


@pytest.mark.parametrize(
    ("done", "finding"),
    [
        (ended(exit_code=0), "exit code 0 with failed tests"),
        (ended(but={TESTS[1]: RIGHT.replace("rank 1", "rank 0")}), "is not in"),
        (ended(but={TESTS[2]: "rank 0 died of SIGKILL"}), f"{TESTS[2]}: failed"),
        (ended(disturbance="rank killed", but=dict.fromkeys(TESTS[::2], "died of SIGKILL")), "one rank cost 2 tests"),
        (ended(said="INTERNALERROR> KeyError"), "the output has 'INTERNALERROR'"),
        (ended(said=f"training {MODULE}:{TESTS[2]} {CHANGES_ITS_PROCESS}: umask"), "said without a reason"),
        (ended(disturbance="SIGTERM"), "SIGTERM: exit code 1"),
        (ended(disturbance="broken import"), "broken import: exit code 1"),
    ],
)
def test_what_is_not_expected_is_a_finding(done: Done, finding: str) -> None:
    assert finding in " ".join(done.findings)
    assert finding in markdown([done], 1, 1, {"torch": "2"})


def test_a_change_of_the_process_is_read_from_its_wrapped_line() -> None:
    changing = "umask__r1_s3_1"
    assert planted(changing) is not None
    plan = Plan(number=1, seed=1, tests=(TESTS[0], changing, TESTS[2]), disturbance="none", moment=0.5)
    for said, findings in (
        (
            f"training {MODULE}:{changing} {CHANGES_ITS_PROCESS}:\n  gc.isenabled(): True -> False; umask:\n  18 -> 63",
            0,
        ),
        (f"training {MODULE}:{changing} {CHANGES_ITS_PROCESS}:\n  niceness: 0 -> 1\nstarted in 1 s, umask", 1),
        ("", 1),
    ):
        done = Done(plan=plan, exit_code=0, disturbed=True, outcomes=dict.fromkeys(plan.tests, ""))
        _check(done, said, set())
        assert len(done.findings) == findings, done.findings


def test_a_fault_that_slows_the_next_test_is_seen() -> None:
    def run(kind: str, number: int) -> Done:
        tests = (TESTS[0], f"{kind}__r0_s1_1", TESTS[2])
        plan = Plan(number=number, seed=1, tests=tests, disturbance="none", moment=0)
        slower = 1.5 if kind == "busy_thread" else 1
        return Done(plan=plan, medians={TESTS[0]: 0.01, TESTS[2]: slower * (0.01 + number * 1e-5)})

    found = numbers([run(kind, number) for kind in (HEALTHY, "busy_thread", "umask") for number in range(12)])
    assert {kind for kind, one in found.items() if one["slower"]} == {"busy_thread"}
