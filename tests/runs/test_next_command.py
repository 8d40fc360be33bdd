"""What to type next, and the width of what is said."""

import re
from pathlib import Path

from fixtures.report.next_command import both_sides
from tests.command_line import QUICK
from tests.forked import perf
from tests.workloads_for_tests import STEP_MS

STEADY = ("perf/test_scaling.py", "-k", "1cpu", "--workload=tests.workloads_for_tests:steady", *QUICK)


def test_a_profile_on_the_screen_is_not_what_to_type_next(tmp_path: Path) -> None:
    one = (f"{STEADY[0]}::test_scaling[steady-1cpu-single]", STEADY[3], *QUICK, "--explain=failures")
    assert perf(tmp_path / "baselines", *one, "--benchmark-save=first").exit_code == 0
    outcome = perf(tmp_path / "baselines", *one, "--min-slowdown=100", variables={STEP_MS: "90"})
    assert re.search(
        r"^next: compare with the code of an older commit .* '--against=HEAD~1'$", outcome.output, re.MULTILINE
    )


def test_a_variable_that_the_record_did_not_have_is_what_to_try_next(tmp_path: Path) -> None:
    assert perf(tmp_path / "baselines", *STEADY, "--explain=failures", "--benchmark-save=first").exit_code == 0
    (file,) = (tmp_path / "baselines").glob("*/*.json")
    then = '"OMP_NUM_THREADS": "2", "NCCL_SOCKET_IFNAME": "eth7"'  # the latter is the suite's on both sides
    file.write_text(re.sub(r'"OMP_NUM_THREADS": ?"1"', then, file.read_text()))
    outcome = perf(
        *(tmp_path / "baselines", *STEADY, "--explain=failures", "--min-slowdown=100"), variables={STEP_MS: "90"}
    )
    assert "NCCL_SOCKET_IFNAME eth7 -> unset; OMP_NUM_THREADS 2 -> 1" in outcome.unwrapped
    tried = re.search(r"^next: try whether OMP_NUM_THREADS made it slower \(.*\): (.*)$", outcome.output, re.MULTILINE)
    assert tried is not None
    assert re.search(r"pytest 'perf/test_scaling.*\]' .*--against-env=OMP_NUM_THREADS=2$", tried[1])


def test_a_variable_is_set_on_one_side_only() -> None:
    changed = {"NCCL_ALGO": ("Tree", None), "NCCL_MAX_NCHANNELS": (None, "1"), "NCCL_PROTO": ("LL", "Simple")}
    assert both_sides(changed, ["perf/test_throughput.py"], ["perf", "--workload=vit_l_32", "-v"], ["pytest"]) == (
        "env -u NCCL_MAX_NCHANNELS pytest perf/test_throughput.py --workload=vit_l_32 --against-env=NCCL_ALGO=Tree "
        "--against-env=NCCL_MAX_NCHANNELS=1 --against-env=NCCL_PROTO=LL"
    )


def test_a_narrow_terminal_has_no_line_of_the_suite_that_is_wider(tmp_path: Path) -> None:
    outcome = perf(tmp_path / "baselines", *STEADY, variables={"COLUMNS": "60"})
    card = outcome.output.partition(" ddp-perf on ")[2].splitlines()[1:]
    assert max(len(line) for line in card if not line.startswith("next: ")) <= 60
    assert re.search(r"^limited by|^verdict", "\n".join(card), re.MULTILINE)
